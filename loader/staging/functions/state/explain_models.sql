-- The plans of a slot's models as a person reads them: state, why, and what to do. is_finding: whether somebody has to
-- do something, which is not so where the next apply or a seed that is counting does it.
create or replace function cdc.explain_models(slot text)
returns table (
    slot_name text, relation text, model_name text, step text, engine text, is_ready boolean,
    from_lsn pg_lsn, position_lsn pg_lsn, applied_lsn pg_lsn, baseline_id uuid, snapshot_lsn pg_lsn, is_locked boolean,
    retry_at timestamptz, state text, reason text, remedy text, is_finding boolean
)
language plpgsql stable security definer rows 10 set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
begin
    return query
    with said as materialized (
        select
            model.*,
            -- A seed that counts by the old declaration is none for the new one.
            model.needs[1] <> 'setup' and 'seed' = any (model.needs)
            and cdc.holder_of(cdc.lock_key('seeding', model.slot_name, model.relation)) is not null as is_counted
        from cdc.explained_model as model
        where model.slot_name = slot
    ),

    -- Several models that need a seed or an audit in the same way need one.
    seeded as (
        select
            said.*,
            said.is_counted and said.step is null as is_held_up,
            string_agg(' --model ' || said.model_name, '') over (
                partition by said.needs, said.is_counted, said.step
                order by said.model_name
                range between unbounded preceding and unbounded following
            ) as models
        from said
    )

    select
        seeded.slot_name,
        seeded.relation,
        seeded.model_name,
        seeded.step,
        seeded.engine,
        seeded.is_ready,
        seeded.from_lsn,
        seeded.position_lsn,
        seeded.applied_lsn,
        seeded.baseline_id,
        seeded.snapshot_lsn,
        seeded.is_locked,
        seeded.retry_at,
        case when seeded.is_held_up then 'waits' else seeded.state end,
        case when seeded.is_held_up then 'a seed is counting its rows' else
            seeded.reason || case when 'seed' = any (seeded.needs) then coalesce('; ' || seeded.seed_error, '') else '' end
        end,
        case
            when seeded.is_failed then seeded.error_remedy
            when seeded.verdict = 'table lacks something' then seeded.lacks ->> 'remedy'
            when seeded.verdict = 'column gone' and not seeded.is_former
                then 'write what it is called now into its query, or leave it out, then `loader setup`, `dbt build`'
            when seeded.verdict = 'to be rebuilt' then cdc.name_builder(seeded.engine)
            when seeded.verdict = 'of another slot'
                then cdc.explain_move(seeded.other_slot, seeded.slot_name, seeded.relation, seeded.model_name)
            else cdc.join_steps(seeded.needs, seeded.models, seeded.is_counted)
        end,
        seeded.reason is not null and seeded.step is distinct from 'rebuild' and not coalesce(seeded.is_counted, false)
        or seeded.is_failed
    from seeded;
end
$$;
