-- The state of each roll-up that is made of models of a slot. It has what its inputs have, so it is at their
-- position as long as they are at one. step is fill where the next apply fills it.
create or replace function cdc.plan_roll_ups(slot text)
returns table (
    model_name text, fact_name text, step text, routine text, inputs text[], applied_lsn pg_lsn,
    retry_at timestamptz, state text, reason text, remedy text, engine text, is_finding boolean
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with plans as materialized (
        select * from cdc.explain_models(slot)
    ),

    found as (
        select
            rolled.model_name,
            rolled.fact_name,
            rolled.routine,
            rolled.inputs,
            rolled.retry_at,
            rolled.error,
            rolled.is_due,
            min(plans.applied_lsn) as applied_lsn,
            max(plans.applied_lsn) as newest_lsn,
            bool_or(plans.engine = 'spark') as is_of_spark,
            min(plans.model_name) filter (where plans.state <> 'follows') as waits_for,
            min(other.model_name) filter (where other.is_due) as filled_after,
            (
                -- Its SQL is for the columns and types of that declaration.
                select min(taken.input_name)
                from cdc.roll_up_input as taken
                left join cdc.installed_model as installed
                    on installed.slot_name = slot and installed.model_name = taken.input_name
                left join cdc.roll_up as below on below.model_name = taken.input_name
                where
                    taken.model_name = rolled.model_name
                    and coalesce(installed.declaration, below.declaration) is distinct from taken.declaration
            ) as compiled_before
        from cdc.roll_up as rolled
        cross join lateral unnest(rolled.inputs) as input (name)
        left join plans on plans.model_name = input.name
        left join cdc.roll_up as other on other.model_name = input.name
        group by rolled.model_name
        having count(plans.model_name) > 0
    )

    select
        found.model_name,
        found.fact_name,
        case
            when found.is_due and found.waits_for is null and found.filled_after is null and found.compiled_before is null
                then 'fill'
        end,
        found.routine,
        found.inputs,
        found.applied_lsn,
        found.retry_at,
        case
            when found.error is not null then 'failed'
            when found.is_due or found.filled_after is not null or found.waits_for is not null
                or found.compiled_before is not null or found.applied_lsn < found.newest_lsn
                then 'waits'
            else 'follows'
        end,
        case
            when found.error is not null then found.error
            when found.waits_for is not null then format('%s, which it is made of, %s: %s', waiting.model_name, waiting.state, waiting.reason)
            when found.compiled_before is not null then format(
                '%s, which it is made of, is installed with another declaration than it was compiled for', found.compiled_before
            )
            when found.filled_after is not null then format('%s, which it is made of, is not filled yet', found.filled_after)
            when found.is_due then 'it is not filled yet'
            when found.applied_lsn < found.newest_lsn then format(
                'the models that it is made of are at different positions, from %s to %s', found.applied_lsn, found.newest_lsn
            )
        end,
        case
            when found.error is not null then '`dbt build` tries it at once'
            when found.waits_for is not null then waiting.remedy
            when found.compiled_before is not null then '`dbt build`'
            when found.is_of_spark and found.applied_lsn < found.newest_lsn then '`spark-submit spark/apply.py`'
            when found.is_due or found.filled_after is not null or found.applied_lsn < found.newest_lsn
                then '`loader run --build` or `dbt build`'
        end,
        case when found.is_of_spark then 'spark' else 'database' end,
        -- Where it waits for a model, it is that one which needs somebody, if any does.
        found.error is not null or found.compiled_before is not null and found.waits_for is null
    from found
    left join plans as waiting on waiting.model_name = found.waits_for
$$;
