-- What is known of each model over models of a slot, and the first of the verdicts on it that is true. It has what its
-- inputs have, so it is at their position as long as they are at one. What it fails with because of an input that has
-- changed is left out: it has no remedy of its own.
create or replace function cdc.known_dependent(slot text)
returns table (
    relation text, model_name text, routine text, error text, remedy text, retry_at timestamptz,
    -- All that is below it, in whatever slot; the positions of what is of this one: the oldest, and the newest.
    inputs text[], applied_lsn pg_lsn, newest_lsn pg_lsn, is_of_spark boolean,
    -- What is below it and does not follow, was never built, or is to be filled first; why it is to be filled itself;
    -- an input that has other columns or another key than it was compiled for; what another major version means.
    waits_for text, not_built text, filled_after text, asked_because text, upgraded text, changed_input text,
    input_state text, input_reason text, input_remedy text, verdict text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with recursive below as (
        select input.relation, input.input_relation from cdc.dependent_input as input
        union
        select below.relation, input.input_relation
        from below inner join cdc.dependent_input as input on input.relation = below.input_relation
    ),

    plans as materialized (
        select * from cdc.explain_models(slot)
    ),

    found as (
        select
            own.relation,
            own.model_name,
            own.routine,
            own.error,
            own.remedy,
            own.retry_at,
            array_agg(below.input_relation order by below.input_relation) as inputs,
            min(plans.applied_lsn) as applied_lsn,
            max(plans.applied_lsn) as newest_lsn,
            bool_or(plans.engine = 'spark') as is_of_spark,
            min(below.input_relation) filter (where plans.state <> 'follows') as waits_for,
            min(below.input_relation) filter (where dependent.relation is null and mark.is_built is not true) as not_built,
            min(below.input_relation) filter (where dependent.relation is not null and cdc.is_to_be_filled(below.input_relation)) as filled_after,
            (select asked.reason from cdc.to_fill as asked where asked.relation = own.relation order by asked.asked_at desc limit 1) as asked_because,
            cdc.explain_upgrade(own.major_version) as upgraded
        from cdc.dependent_model as own
        inner join below on below.relation = own.relation
        left join plans on plans.relation = below.input_relation
        left join cdc.dependent_model as dependent on dependent.relation = below.input_relation
        left join lateral (
            select true as is_built from cdc.model_watermark as marked where marked.relation = below.input_relation limit 1
        ) as mark on true
        group by own.relation
        having count(plans.relation) > 0
    )

    select
        found.relation, found.model_name, found.routine, case when own.changed_input is null then found.error end, found.remedy,
        found.retry_at, found.inputs, found.applied_lsn, found.newest_lsn, found.is_of_spark,
        coalesce(own.changing_input, failed.relation, found.waits_for), found.not_built, found.filled_after, found.asked_because, found.upgraded, own.changed_input,
        case when failed.error is null then waiting.state else 'failed' end, coalesce(failed.error, waiting.reason), coalesce(failed.remedy, waiting.remedy),
        case
            when found.not_built = found.waits_for then 'an input waits'
            when found.not_built is not null then 'an input is not built'
            when own.changing_input is not null or failed.relation is not null then 'an input waits'
            when own.changed_input <> coalesce(found.filled_after, '') then 'compiled before'
            when found.filled_after is not null then 'an input is to be filled'
            when found.asked_because is not null then 'to be filled'
            when found.waits_for is not null then 'an input waits'
            when found.applied_lsn < found.newest_lsn then 'inputs apart'
            else 'follows'
        end
    from found
    cross join lateral (select cdc.changed_input(found.relation) as changed_input offset 0) as changed
    cross join lateral (
        select changed.changed_input, case when changed.changed_input is not null then cdc.changing_input(slot, found.inputs) end as changing_input
    ) as own
    left join cdc.dependent_model as failed on failed.relation = found.filled_after and failed.error is not null
    left join plans as waiting on waiting.relation = coalesce(own.changing_input, found.waits_for);
end
$$;
