-- The state of each roll-up that is made of models of a slot, and in `step` whether the next apply fills it.
-- is_finding: somebody has to do something. Where it waits for a model, that is said of the model.
create or replace function cdc.plan_roll_ups(slot text)
returns table (
    model_name text, fact_name text, step text, routine text, inputs text[], applied_lsn pg_lsn,
    retry_at timestamptz, state text, reason text, remedy text, engine text, is_finding boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select
        known.model_name,
        known.fact_name,
        case when judged.verdict = 'due' then 'fill' end,
        known.routine,
        known.inputs,
        known.applied_lsn,
        known.retry_at,
        case when known.error is not null then 'failed' when judged.verdict = 'follows' then 'follows' else 'waits' end,
        coalesce(known.error, case judged.verdict
            when 'an input waits' then format(
                '%s, which it is made of, %s: %s', known.waits_for, known.input_state, known.input_reason
            )
            when 'compiled before' then format(
                '%s, which it is made of, is installed with another declaration than it was compiled for',
                known.compiled_before
            )
            when 'an input is due' then format('%s, which it is made of, is not filled yet', known.filled_after)
            when 'due' then 'it is not filled yet'
            when 'inputs apart' then format(
                'the models that it is made of are at different positions, from %s to %s',
                known.applied_lsn, known.newest_lsn
            )
        end),
        case
            when known.error is not null then '`dbt build` tries it at once'
            when judged.verdict = 'an input waits' then known.input_remedy
            when judged.verdict = 'compiled before' then '`dbt build`'
            when judged.verdict <> 'follows'
                then cdc.name_builder(case when known.is_of_spark and known.applied_lsn < known.newest_lsn then 'spark' end)
        end,
        case when known.is_of_spark then 'spark' else 'database' end,
        known.error is not null or judged.verdict = 'compiled before'
    from cdc.known_roll_ups(slot) as known
    cross join lateral (
        select case
            when known.waits_for is not null then 'an input waits'
            when known.compiled_before is not null then 'compiled before'
            when known.filled_after is not null then 'an input is due'
            when known.is_due then 'due'
            when known.applied_lsn < known.newest_lsn then 'inputs apart'
            else 'follows'
        end as verdict
        offset 0
    ) as judged
    union all
    select * from cdc.plan_downstream(slot);
end
$$;
