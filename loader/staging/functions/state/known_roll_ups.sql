-- What is known of each roll-up that is made of models of a slot. It has what its inputs have, so it is at their
-- position as long as they are at one.
create or replace function cdc.known_roll_ups(slot text)
returns table (
    model_name text, fact_name text, routine text, inputs text[], error text, retry_at timestamptz, is_due boolean,
    -- The positions of its inputs: the oldest, and the newest.
    applied_lsn pg_lsn, newest_lsn pg_lsn, is_of_spark boolean,
    -- An input that does not follow, with what is said of it.
    waits_for text, input_state text, input_reason text, input_remedy text,
    -- An input that is a roll-up and has to be filled first.
    filled_after text,
    -- An input of another declaration than the roll-up was compiled for: its SQL is for other columns and types.
    compiled_before text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if not exists (select from cdc.roll_up) then
        return;
    end if;
    return query
    with plans as materialized (
        select * from cdc.explain_models(slot)
    ),

    found as (
        select
            rolled.*,
            min(plans.applied_lsn) as applied_lsn,
            max(plans.applied_lsn) as newest_lsn,
            bool_or(plans.engine = 'spark') as is_of_spark,
            min(plans.model_name) filter (where plans.state <> 'follows') as waits_for,
            min(below.model_name) filter (where below.is_due) as filled_after
        from cdc.roll_up as rolled
        cross join lateral unnest(rolled.inputs) as input (name)
        left join plans on plans.model_name = input.name
        left join cdc.roll_up as below on below.model_name = input.name
        group by rolled.model_name
        having count(plans.model_name) > 0
    )

    select
        found.model_name,
        found.fact_name,
        found.routine,
        found.inputs,
        found.error,
        found.retry_at,
        found.is_due,
        found.applied_lsn,
        found.newest_lsn,
        found.is_of_spark,
        found.waits_for,
        plans.state,
        plans.reason,
        plans.remedy,
        found.filled_after,
        (
            select min(taken.input_name)
            from cdc.roll_up_input as taken
            left join cdc.installed_model as installed
                on installed.slot_name = slot and installed.model_name = taken.input_name
            left join cdc.roll_up as below on below.model_name = taken.input_name
            where
                taken.model_name = found.model_name
                and coalesce(installed.declaration, below.declaration) is distinct from taken.declaration
        )
    from found
    left join plans on plans.model_name = found.waits_for;
end
$$;
