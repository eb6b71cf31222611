{# Decide what this transaction applies: the changes with from_lsn <= commit LSN < to_lsn. A normal
   batch adds them to the table as it is. A rebuild adds them to the baseline. Refuse what cannot
   be right, with a remedy; let a fact whose baseline is still to come wait, and leave its table as
   it is.

   One statement after the lock reads everything that is decided on (read_batch_state): two
   statements could see a position from before and a baseline from after a seed.

   With the variable slice_changes, a normal batch ends at the first source transaction after so
   many changes. A backlog is then applied in several builds of bounded size. A rebuild is not cut,
   because readers would see counts of the past.

   A rebuild happens when it is asked for, when the table is new, when the watermark is missing,
   when the baseline or the declaration has changed, and when a TRUNCATE took away what a measure
   of several tables holds mixed. #}
{% macro bound_batch(declared, reads_table) %}
{%- set relation = waltally.quote_literal(this.include(database=false) | string) %}
{%- set replaces_rows = not reads_table and load_cached_relation(this) is not none %}
do $bound_batch$
declare
    model constant text := {{ waltally.quote_literal(waltally.get_model_key()) }};
    compiled constant jsonb := {{ waltally.quote_literal(tojson(declared)) }};
    state record;
    other_slot text;
    is_rebuild boolean;
    from_lsn pg_lsn;
    to_lsn pg_lsn;
    waits text;
begin
    {{ waltally.read_batch_state(declared) }}
    {{ waltally.refuse_other_settings(declared) }}

    is_rebuild := {{ flags.FULL_REFRESH }}
        or to_regclass({{ relation }}) is null
        or state.applied_lsn is null
        or state.built_by is distinct from state.declaration
        or state.baseline_id is distinct from state.built_on;

    if not is_rebuild then
        {{ waltally.refuse_batch() }}
        from_lsn := state.applied_lsn;
        to_lsn := greatest(state.position_lsn, from_lsn);
        if {{ var('slice_changes', 0) }} > 0 then
            to_lsn := {{ waltally.get_staging_schema() }}.slice_end(
                '{{ waltally.get_slot_name() }}', from_lsn, to_lsn, {{ var('slice_changes', 0) }}
            );
        end if;
        {{ waltally.find_mixed_truncate(declared) }}
    end if;

    if is_rebuild then
        {{ waltally.find_missing_baseline(declared, replaces_rows) }}
        if waits is null then
            {{ waltally.refuse_rebuild(declared) }}
        end if;
        from_lsn := coalesce(state.snapshot_lsn, state.start_lsn);
        to_lsn := greatest(state.position_lsn, from_lsn);
    end if;
    {{ waltally.refuse_unfollowed() }}
    {%- if replaces_rows %}

    if not is_rebuild then
        raise exception '% has other columns than it declares', model
            using hint = 'Run dbt build --full-refresh.';
    end if;
    {%- endif %}

    -- For this transaction alone. Compiling takes longer than most batches. The planner overestimates
    -- the groups and would sort wide rows, while grouping by hash can spill to disk.
    perform set_config('jit', 'off', true);
    perform set_config('enable_sort', 'off', true);
    perform set_config('waltally.waits', coalesce(waits, ''), true);
    perform set_config('waltally.from_lsn', from_lsn::text, true);
    perform set_config('waltally.to_lsn', to_lsn::text, true);
    -- The worst case, until the model's query notes what it found (record_uncounted).
    perform set_config('waltally.rejected_lsn', to_lsn::text, true);
    perform set_config('waltally.left_out', '', true);
    -- With other expressions the derived columns of every group are computed anew.
    perform set_config(
        'waltally.redefined',
        case
            when
                state.definition is distinct from '{{ waltally.hash_derived() }}'
                or state.built_by is distinct from state.declaration
                then 'on'
            else 'off'
        end,
        true
    );
    perform set_config('waltally.rebuild', case when is_rebuild then 'on' else 'off' end, true);
    perform set_config('waltally.baseline_id', coalesce(state.baseline_id::text, ''), true);
end
$bound_batch$
{% endmacro %}
