{# A step of bound_batch: refuse a rebuild whose baseline and change log do not hold together
   everything that the fact has to count. #}
{% macro refuse_rebuild() -%}
{%- set is_seeded = model.config.meta.get('seeded', true) -%}
if state.seed_system <> state.system_identifier then
            raise exception 'the baseline was taken from another cluster than the slot reads'
                using hint = 'Run spark-submit spark/seed.py against the cluster of the slot.';
        end if;
        if state.snapshot_lsn < state.start_lsn then
            raise exception 'the change log starts at %, after the baseline at %',
                state.start_lsn, state.snapshot_lsn
                using hint = 'Run spark-submit spark/seed.py.';
        end if;
        -- A new fact without a baseline starts where the log does. An old one holds what was pruned.
        if
            state.seed_id is null
            and state.pruned_from_lsn is not null
            and ({{ is_seeded }} or state.applied_lsn is not null)
        then
            raise exception 'the change log from % to % is pruned, and no baseline holds it for %',
                state.pruned_from_lsn, state.start_lsn, model
                {%- if is_seeded %}
                using hint = 'Run spark-submit spark/seed.py, then dbt build.';
                {%- else %}
                using hint = 'Build without --full-refresh. To count only what comes after, run in psql: '
                    || {{ write_watermark_delete("'" ~ get_slot_name() ~ "'") }}
                    || ' and then: dbt build --full-refresh';
                {%- endif %}
        end if;
        {%- if load_cached_relation(this) is not none %}

        -- Without a watermark nothing says where these counts come from: another slot, or a baseline
        -- that is gone. A rebuild would replace them by what this log alone holds.
        if
            state.seed_id is null
            and state.applied_lsn is null
            and (
                not {{ flags.FULL_REFRESH }}
                {%- if is_seeded %}
                or exists (select from {{ source('cdc', 'historical_snapshot') }})
                {%- endif %}
            )
            and exists (
                select from {{ this }}
                {%- for column in model.config.meta.get('additive', []) %}
                {{ 'where' if loop.first else 'or' }} {{ column }} <> 0
                {%- endfor %}
            )
        then
            raise exception '% holds counts, and nothing says that they come from the slot {{ get_slot_name() }}', model
                {%- if is_seeded %}
                using hint = 'Run spark-submit spark/seed.py, then dbt build. Where no slot has a baseline, dbt build --full-refresh keeps what this log holds and nothing else.';
                {%- else %}
                using hint = 'Run dbt build --full-refresh to keep what this log holds and nothing else.';
                {%- endif %}
        end if;
        {%- endif %}
{%- endmacro %}
