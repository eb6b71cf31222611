{# Decide what this transaction applies: the changes with from_lsn <= commit LSN < to_lsn, onto the
   table as it is, or (rebuild) onto the historical seed. All of it is read by one statement, after
   the lock. What cannot be right is refused.

   With the variable slice_changes, an incremental batch ends at the first source transaction after
   so many changes: a backlog is then applied in several builds, each bounded. A rebuild is not cut:
   readers would see counts of the past.

   A rebuild happens when asked for, when the table is new, when the watermark is missing and when
   the seed has changed. A fact that no seed can feed says so with `meta: {seeded: false}`.

   A model belongs to one slot: two would each be added to what the other one made. #}
{% macro bound_batch() %}
{%- set is_seeded = model.config.meta.get('seeded', true) %}
{%- set relation = literal(this.include(database=false) | string) %}
do $bound_batch$
declare
    model constant text := {{ literal(model_key()) }};
    -- What LOADER_TABLES says, or its default.
    compiled_tables constant jsonb := {{ literal(tojson([counted_table(0), counted_table(1)])) }};
    state record;
    other_slot text;
    is_rebuild boolean;
    from_lsn pg_lsn;
    to_lsn pg_lsn;
begin
    select
        log.start_lsn,
        log.pruned_from_lsn,
        log.position_lsn,
        log.system_identifier,
        log.registered_tables,
        jsonb_path_query_array(log.registered_tables, '$[0 to 1]') as counted_tables,
        model_watermark.applied_lsn,
        model_watermark.definition,
        model_watermark.seed_id as built_on,
        seed.seed_id,
        seed.snapshot_lsn,
        seed.system_identifier as seed_system
    into state
    from {{ source('cdc', 'slot_position') }} as log
    left join {{ source('cdc', 'model_watermark') }} as model_watermark
        on model_watermark.slot_name = log.slot_name and model_watermark.model_name = model
    left join {{ source('cdc', 'historical_snapshot') }} as seed
        on seed.slot_name = log.slot_name and {{ is_seeded }}
    where log.slot_name = '{{ slot_name() }}';

    if not found then
        raise exception 'no change log for slot {{ slot_name() }}'
            using hint = 'Run loader setup, or set LOADER_SLOT to the slot that it made.';
    end if;

    -- Else changes of other tables would pass as counted, or live rows as archived ones.
    if compiled_tables <> state.counted_tables then
        raise exception 'dbt counts %, and loader setup registered %',
            {{ table_list('compiled_tables') }}, {{ table_list('state.counted_tables') }}
            using hint = 'Run dbt again after: export LOADER_TABLES='
                || {{ shell_word(table_list('state.registered_tables')) }};
    end if;

    select mark.slot_name into other_slot
    from {{ source('cdc', 'model_watermark') }} as mark
    where mark.model_name = model and mark.slot_name <> '{{ slot_name() }}'
    order by mark.slot_name
    limit 1;
    if found then
        raise exception '% is built from the slot %; a second slot would mix its counts with these',
            model, other_slot
            using hint = 'Set LOADER_SLOT=' || other_slot
                || '. To move the model to {{ slot_name() }} for good
                {%- if is_seeded %}, run spark-submit spark/seed.py for it first. Then{% else %},{% endif %} run in psql: '
                || format(
                    'delete from %I.model_watermark where model_name = %L and slot_name = %L;',
                    {{ literal(env_var('LOADER_SCHEMA', 'cdc')) }}, model, other_slot
                )
                || ' and then: dbt build --full-refresh';
    end if;

    {%- if load_cached_relation(this) is none %}

    if to_regclass({{ relation }}) is not null then
        raise exception 'another build made % while this one waited', model
            using hint = 'Run dbt build again; nothing was applied twice.';
    end if;
    {%- endif %}

    if state.seed_id is null and state.built_on is not null and not {{ flags.FULL_REFRESH }} then
        raise exception 'the historical seed that % was built on is gone', model
            using hint = 'Run spark-submit spark/seed.py; to do without history, dbt build --full-refresh.';
    end if;

    is_rebuild := {{ flags.FULL_REFRESH }}
        or to_regclass({{ relation }}) is null
        or state.applied_lsn is null
        or state.seed_id is distinct from state.built_on;

    if is_rebuild then
        if state.seed_system <> state.system_identifier then
            raise exception 'the historical seed was taken from another cluster than the slot reads'
                using hint = 'Run spark-submit spark/seed.py against the cluster of the slot.';
        end if;
        if state.snapshot_lsn < state.start_lsn then
            raise exception 'the change log starts at %, after the historical seed at %',
                state.start_lsn, state.snapshot_lsn
                using hint = 'Run spark-submit spark/seed.py.';
        end if;
        -- A new fact that no seed feeds starts where the log does; an old one holds what was pruned.
        if
            state.seed_id is null
            and state.pruned_from_lsn is not null
            and ({{ is_seeded }} or state.applied_lsn is not null)
        then
            raise exception 'the change log from % to % is pruned, and no historical seed holds it for %',
                state.pruned_from_lsn, state.start_lsn, model
                {%- if is_seeded %}
                using hint = 'Run spark-submit spark/seed.py, then dbt build.';
                {%- else %}
                using hint = 'Build without --full-refresh. To count only what comes after, run in psql: '
                    || format(
                        'delete from %I.model_watermark where model_name = %L and slot_name = %L;',
                        {{ literal(env_var('LOADER_SCHEMA', 'cdc')) }}, model, '{{ slot_name() }}'
                    )
                    || ' and then: dbt build --full-refresh';
                {%- endif %}
        end if;
        {%- if load_cached_relation(this) is not none %}

        -- No watermark says where these counts come from: another slot, or a seed that is gone. A
        -- rebuild would replace them by what this log alone holds.
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
            raise exception '% holds counts, and nothing says that they come from the slot {{ slot_name() }}', model
                {%- if is_seeded %}
                using hint = 'Run spark-submit spark/seed.py, then dbt build. Where no slot has a seed, dbt build --full-refresh keeps what this log holds and nothing else.';
                {%- else %}
                using hint = 'Run dbt build --full-refresh to keep what this log holds and nothing else.';
                {%- endif %}
        end if;
        {%- endif %}
        from_lsn := coalesce(state.snapshot_lsn, state.start_lsn);
    else
        if state.applied_lsn > greatest(state.position_lsn, state.snapshot_lsn) then
            raise exception '% holds changes up to %, the change log only up to %',
                model, state.applied_lsn, state.position_lsn
                using hint = 'Run spark-submit spark/seed.py, then dbt build --full-refresh.';
        end if;
        if state.applied_lsn < state.start_lsn then
            raise exception 'the change log starts at %, % holds changes only up to %',
                state.start_lsn, model, state.applied_lsn
                using hint = 'Run spark-submit spark/seed.py, then dbt build --full-refresh.';
        end if;
        from_lsn := state.applied_lsn;
    end if;

    to_lsn := greatest(state.position_lsn, from_lsn);

    if {{ var('slice_changes') }} > 0 and not is_rebuild then
        to_lsn := {{ staging_schema() }}.slice_end(
            '{{ slot_name() }}', from_lsn, to_lsn, {{ var('slice_changes') }}
        );
    end if;

    -- For this transaction: compiling takes longer than most batches, and grouping by hash spills
    -- to disk where the planner, who overestimates the groups, would sort wide rows.
    perform set_config('jit', 'off', true);
    perform set_config('enable_sort', 'off', true);
    perform set_config('waltally.from_lsn', from_lsn::text, true);
    perform set_config('waltally.to_lsn', to_lsn::text, true);
    -- The worst, until the model says better (note_uncounted).
    perform set_config('waltally.rejected_lsn', to_lsn::text, true);
    perform set_config('waltally.left_out', '', true);
    -- Other expressions for the derived columns: every group is computed anew.
    perform set_config(
        'waltally.redefined',
        case when state.definition is distinct from '{{ definition() }}' then 'on' else 'off' end,
        true
    );
    perform set_config('waltally.rebuild', case when is_rebuild then 'on' else 'off' end, true);
    perform set_config('waltally.seed_id', coalesce(state.seed_id::text, ''), true);
end
$bound_batch$
{% endmacro %}

{# A hash of the expressions of the derived columns; empty where there are none. #}
{% macro definition() -%}
    {%- set derived = model.config.meta.get('derived') -%}
    {{ local_md5(tojson(derived)) if derived }}
{%- endmacro %}

{# SQL text: a jsonb list of [schema, table] as LOADER_TABLES spells it. #}
{% macro table_list(tables) -%}
    (
        select
            string_agg(
                quote_ident(listed.names ->> 0) || '.' || quote_ident(listed.names ->> 1),
                ',' order by listed.place
            )
        from jsonb_array_elements({{ tables }}) with ordinality as listed (names, place)
    )
{%- endmacro %}

{# SQL text: a text as one word of a shell's command. #}
{% macro shell_word(text) -%}
    '''' || replace({{ text }}, '''', '''\''''') || ''''
{%- endmacro %}
