{# Decide what this transaction applies: the changes with from_lsn <= commit LSN < to_lsn. A normal
   batch adds them to the table as it is. A rebuild adds them to the baseline. Refuse what cannot be
   right, with a remedy.

   One statement after the lock reads everything that is decided on (read_batch_state): two
   statements could see a position from before and a baseline from after a seed.

   With the variable slice_changes, a normal batch ends at the first source transaction after so
   many changes. A backlog is then applied in several builds of bounded size. A rebuild is not cut,
   because readers would see counts of the past.

   A rebuild happens when it is asked for, when the table is new, when the watermark is missing and
   when the baseline has changed. A fact without a baseline says `meta: {seeded: false}`. #}
{% macro bound_batch() %}
{%- set relation = quote_literal(this.include(database=false) | string) %}
do $bound_batch$
declare
    model constant text := {{ quote_literal(get_model_key()) }};
    -- The tables as LOADER_TABLES or its default names them.
    compiled_tables constant jsonb
        := {{ quote_literal(tojson([get_counted_table(0), get_counted_table(1)])) }};
    state record;
    other_slot text;
    is_rebuild boolean;
    from_lsn pg_lsn;
    to_lsn pg_lsn;
begin
    {{ read_batch_state() }}
    {{ refuse_other_settings() }}

    is_rebuild := {{ flags.FULL_REFRESH }}
        or to_regclass({{ relation }}) is null
        or state.applied_lsn is null
        or state.seed_id is distinct from state.built_on;

    if is_rebuild then
        {{ refuse_rebuild() }}
        from_lsn := coalesce(state.snapshot_lsn, state.start_lsn);
    else
        {{ refuse_batch() }}
        from_lsn := state.applied_lsn;
    end if;

    to_lsn := greatest(state.position_lsn, from_lsn);

    if {{ var('slice_changes') }} > 0 and not is_rebuild then
        to_lsn := {{ get_staging_schema() }}.slice_end(
            '{{ get_slot_name() }}', from_lsn, to_lsn, {{ var('slice_changes') }}
        );
    end if;

    -- For this transaction alone. Compiling takes longer than most batches. The planner overestimates
    -- the groups and would sort wide rows, while grouping by hash can spill to disk.
    perform set_config('jit', 'off', true);
    perform set_config('enable_sort', 'off', true);
    perform set_config('waltally.from_lsn', from_lsn::text, true);
    perform set_config('waltally.to_lsn', to_lsn::text, true);
    -- The worst case, until the model's query notes what it found (record_uncounted).
    perform set_config('waltally.rejected_lsn', to_lsn::text, true);
    perform set_config('waltally.left_out', '', true);
    -- With other expressions the derived columns of every group are computed anew.
    perform set_config(
        'waltally.redefined',
        case when state.definition is distinct from '{{ hash_derived() }}' then 'on' else 'off' end,
        true
    );
    perform set_config('waltally.rebuild', case when is_rebuild then 'on' else 'off' end, true);
    perform set_config('waltally.seed_id', coalesce(state.seed_id::text, ''), true);
end
$bound_batch$
{% endmacro %}
