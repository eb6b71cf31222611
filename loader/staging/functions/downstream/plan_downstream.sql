-- The state of each model over models of a slot, and in `step` whether the next apply fills it. is_finding: somebody has
-- to do something. Where it waits for an input, that is said of the input.
create or replace function cdc.plan_downstream(slot text)
returns table (
    model_name text, fact_name text, step text, routine text, inputs text[], applied_lsn pg_lsn,
    retry_at timestamptz, state text, reason text, remedy text, engine text, is_finding boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if not exists (select from cdc.downstream_model) then
        return;
    end if;
    return query
    with recursive below as (
        select input.model_name, input.input_name from cdc.downstream_input as input
        union
        select below.model_name, input.input_name
        from below inner join cdc.downstream_input as input on input.model_name = below.input_name
    ),

    plans as materialized (
        select * from cdc.explain_models(slot)
    ),

    found as (
        select
            own.*,
            array_agg(below.input_name order by below.input_name) as inputs,
            min(plans.applied_lsn) as applied_lsn,
            max(plans.applied_lsn) as newest_lsn,
            bool_or(plans.engine = 'spark') as is_of_spark,
            min(below.input_name) filter (where plans.state <> 'follows') as waits_for,
            min(below.input_name) filter (where upper.model_name is null and mark.is_built is not true) as not_built,
            min(below.input_name) filter (where cdc.is_to_be_filled(below.input_name)) as filled_after,
            (select asked.reason from cdc.to_fill as asked where asked.model_name = own.model_name order by asked.asked_at desc limit 1) as asked_because
        from cdc.downstream_model as own
        inner join below on below.model_name = own.model_name
        left join plans on plans.model_name = below.input_name
        left join cdc.downstream_model as upper on upper.model_name = below.input_name
        left join lateral (
            select true as is_built from cdc.model_watermark as marked where marked.model_name = below.input_name limit 1
        ) as mark on true
        group by own.model_name
        having count(plans.model_name) > 0
    )

    select
        found.model_name,
        found.name,
        case when judged.verdict = 'to be filled' then 'fill' end,
        found.routine,
        found.inputs,
        found.applied_lsn,
        found.retry_at,
        case when found.error is not null then 'failed' when judged.verdict = 'follows' then 'follows' else 'waits' end,
        coalesce(found.error, case judged.verdict
            when 'an input waits' then format('%s, which it reads, %s: %s', found.waits_for, plans.state, plans.reason)
            when 'an input is not built' then format('%s, which it reads, is not built yet', found.not_built)
            when 'compiled before' then format('%s, which it reads, has other columns than it was compiled for', own.changed_input)
            when 'an input is to be filled' then format('%s, which it reads, is to be filled first', found.filled_after)
            when 'to be filled' then format('it is to be filled from its inputs: %s', found.asked_because)
            when 'inputs apart' then format(
                'the models that it reads are at different positions, from %s to %s', found.applied_lsn, found.newest_lsn
            )
        end),
        case
            when found.error is not null then '`dbt build` tries it at once'
            when judged.verdict = 'an input waits' then plans.remedy
            when judged.verdict in ('compiled before', 'an input is not built') then '`dbt build`'
            when judged.verdict <> 'follows'
                then cdc.name_builder(case when found.is_of_spark and found.applied_lsn < found.newest_lsn then 'spark' end)
        end,
        case when found.is_of_spark then 'spark' else 'database' end,
        found.error is not null or judged.verdict = 'compiled before'
    from found
    left join plans on plans.model_name = found.waits_for
    cross join lateral (select cdc.changed_input(found.model_name) as changed_input offset 0) as own
    cross join lateral (
        select case
            when own.changed_input is not null then 'compiled before'
            when found.not_built = found.waits_for then 'an input waits'
            when found.not_built is not null then 'an input is not built'
            when found.filled_after is not null then 'an input is to be filled'
            when found.asked_because is not null then 'to be filled'
            when found.waits_for is not null then 'an input waits'
            when found.applied_lsn < found.newest_lsn then 'inputs apart'
            else 'follows'
        end as verdict
        offset 0
    ) as judged;
end
$$;
