{# A step of bound_batch: refuse a rebuild whose baseline and change log do not hold together
   everything that the fact has to count. #}
{% macro refuse_rebuild(declared) -%}
{%- set seed = 'spark-submit spark/seed.py --fact ' ~ model.name -%}
if state.baseline_system <> state.system_identifier then
                raise exception 'the baseline was taken from another cluster than the slot reads'
                    using hint = 'Run {{ seed }} against the cluster of the slot.';
            end if;
            if state.snapshot_lsn < state.start_lsn then
                raise exception 'the change log starts at %, after the baseline at %',
                    state.start_lsn, state.snapshot_lsn
                    using hint = 'Run {{ seed }}, then dbt build.';
            end if;
            if state.baseline_id is null and state.pruned_from_lsn is not null then
                raise exception 'the change log from % to % is pruned, and no baseline holds it for %',
                    state.pruned_from_lsn, state.start_lsn, model
                    using hint = 'Run {{ seed }}, then dbt build.';
            end if;
            {%- if load_cached_relation(this) is not none %}

            -- Without a watermark nothing says where these counts come from: another slot, or a
            -- baseline that is gone. A rebuild would replace them by what this log alone holds.
            if
                state.baseline_id is null
                and state.applied_lsn is null
                and not {{ flags.FULL_REFRESH }}
                and exists (select from {{ this }}{{ waltally.write_slot_filter(declared) }})
            then
                raise exception '% holds counts, and nothing says that they come from the slot {{ waltally.get_slot_name() }}', model
                    using hint = 'Run {{ seed }}, then dbt build. Where no slot has a baseline, dbt build --full-refresh keeps what this log holds and nothing else.';
            end if;
            {%- endif %}
{%- endmacro %}
