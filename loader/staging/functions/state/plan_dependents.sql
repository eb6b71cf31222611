-- The state of each model over models of a slot, and in `step` whether the next apply fills it. is_finding: somebody
-- has to do something. Where it waits for an input, that is said of the input.
create or replace function cdc.plan_dependents(slot text)
returns table (
    relation text, model_name text, step text, routine text, inputs text[], applied_lsn pg_lsn,
    retry_at timestamptz, state text, reason text, remedy text, engine text, is_finding boolean
)
language plpgsql stable security definer rows 10 set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
begin
    if not exists (select from cdc.dependent_model) then
        return;
    end if;
    return query
    select
        found.relation,
        found.model_name,
        case when found.verdict = 'to be filled' then 'fill' end,
        found.routine,
        found.inputs,
        found.applied_lsn,
        found.retry_at,
        case when found.error is not null then 'failed' when found.verdict = 'follows' then 'follows' else 'waits' end,
        coalesce(found.error, case found.verdict
            when 'an input waits' then format('%s, which it reads, %s: %s', found.waits_for, found.input_state, found.input_reason)
            when 'an input is not built' then format('%s, which it reads, is not built yet', found.not_built)
            when 'compiled before' then format('%s, which it reads, has other columns or another key than it was compiled for', found.changed_input)
            when 'an input is to be filled' then format('%s, which it reads, is to be filled first', found.filled_after)
            when 'to be filled' then format('it is to be filled from its inputs: %s', found.asked_because)
            when 'inputs apart' then format(
                'the models that it reads are at different positions, from %s to %s', found.applied_lsn, found.newest_lsn
            )
            when 'follows' then found.upgraded
        end),
        case
            when found.error is not null then found.remedy
            when found.verdict = 'an input waits' then found.input_remedy
            when found.verdict = 'an input is not built' then coalesce((
                select format('for slot %s: %s', min(own.slot_name), min(own.remedy))
                from cdc.installed_model as own_slot
                cross join lateral cdc.explain_models(own_slot.slot_name) as own
                where own_slot.relation = found.not_built and own.relation = found.not_built
                having min(own.slot_name) is not null
            ), '`dbt build`')
            when found.verdict = 'compiled before' then format(
                '`dbt build`; if it stays so, `dbt build --full-refresh --select %s`', coalesce(
                    (select min(own.model_name) from cdc.installed_model as own where own.relation = found.changed_input),
                    (select own.model_name from cdc.dependent_model as own where own.relation = found.changed_input)
                )
            )
            when found.verdict = 'follows' and found.upgraded is not null
                then cdc.join_steps(array['audit'], ' --model ' || found.model_name, false)
            when found.verdict <> 'follows'
                then cdc.name_builder(case when found.is_of_spark and found.applied_lsn < found.newest_lsn then 'spark' end)
        end,
        case when found.is_of_spark then 'spark' else 'database' end,
        found.error is not null or found.verdict = 'compiled before' or found.verdict = 'follows' and found.upgraded is not null
    from cdc.known_dependent(slot) as found;
end
$$;
