{# Decide what this transaction applies: the changes with from_lsn <= commit LSN < to_lsn, onto the
   table as it is, or (rebuild) onto the historical seed. All of it is read by one statement, after
   the lock. What cannot be right is refused.

   With the variable slice_changes, an incremental batch ends at the first source transaction after
   so many changes: a backlog is then applied in several builds, each bounded. A rebuild is not cut:
   readers would see counts of the past.

   A model that lists what another rejected (`meta: {lists_rejections_of: ...}`) goes as far as that.

   A rebuild happens when asked for, when the table is new, when the watermark is missing and when
   the seed has changed. A fact that no seed can feed says so with `meta: {seeded: false}`. #}
{% macro bound_batch() %}
do $bound_batch$
declare
    model constant text := '{{ model_key() }}';
    state record;
    is_rebuild boolean;
    from_lsn pg_lsn;
    to_lsn pg_lsn;
begin
    select
        log.start_lsn,
        log.pruned_from_lsn,
        log.position_lsn,
        log.system_identifier,
        model_watermark.applied_lsn,
        model_watermark.seed_id as built_on,
        seed.seed_id,
        seed.snapshot_lsn,
        seed.system_identifier as seed_system
    into state
    from {{ source('cdc', 'slot_position') }} as log
    left join {{ source('cdc', 'model_watermark') }} as model_watermark
        on model_watermark.slot_name = log.slot_name and model_watermark.model_name = model
    left join {{ source('cdc', 'historical_snapshot') }} as seed
        on seed.slot_name = log.slot_name and {{ model.config.meta.get('seeded', true) }}
    where log.slot_name = '{{ slot_name() }}';

    if not found then
        raise exception 'no change log for slot {{ slot_name() }}'
            using hint = 'Run loader setup, or set LOADER_SLOT to the slot that it made.';
    end if;

    {%- if load_cached_relation(this) is none %}

    if to_regclass('{{ this.include(database=false) }}') is not null then
        raise exception 'another build made {{ this.include(database=false) }} while this one waited'
            using hint = 'Run dbt build again; nothing was applied twice.';
    end if;
    {%- endif %}

    if state.seed_id is null and state.built_on is not null and not {{ flags.FULL_REFRESH }} then
        raise exception 'the historical seed that % was built on is gone', model
            using hint = 'Run spark-submit spark/seed.py; to do without history, dbt build --full-refresh.';
    end if;

    is_rebuild := {{ flags.FULL_REFRESH }}
        or to_regclass('{{ this.include(database=false) }}') is null
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
        {%- set is_seeded = model.config.meta.get('seeded', true) %}
        {%- if is_seeded %}
            {%- set remedy = 'Run spark-submit spark/seed.py, then dbt build.' %}
        {%- else %}
            {%- set remedy -%}
                Build without --full-refresh. To count only what comes after: delete from {{ staging_schema() }}.model_watermark where model_name = ''{{ model_key() }}'' and slot_name = ''{{ slot_name() }}'';
            {%- endset %}
        {%- endif %}
        -- A new fact that no seed feeds starts where the log does; an old one holds what was pruned.
        if
            state.seed_id is null
            and state.pruned_from_lsn is not null
            and ({{ is_seeded }} or state.applied_lsn is not null)
        then
            raise exception 'the change log from % to % is pruned, and no historical seed holds it for %',
                state.pruned_from_lsn, state.start_lsn, model
                using hint = '{{ remedy }}';
        end if;
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
    {%- set leader = model.config.meta.get('lists_rejections_of') %}
    {%- if leader %}

    to_lsn := coalesce(
        (
            select greatest(leader.applied_lsn, from_lsn)
            from {{ source('cdc', 'model_watermark') }} as leader
            where
                leader.model_name = '{{ model_key(ref(leader)) }}'
                and leader.slot_name = '{{ slot_name() }}'
        ),
        to_lsn
    );
    {%- endif %}

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
    -- The worst, until the model says better (note_rejections).
    perform set_config('waltally.rejected_lsn', to_lsn::text, true);
    perform set_config('waltally.rebuild', case when is_rebuild then 'on' else 'off' end, true);
    perform set_config('waltally.seed_id', coalesce(state.seed_id::text, ''), true);
end
$bound_batch$
{% endmacro %}
