-- What a call of apply says of each model, whose name is that of model_state. is_more: those that
-- have caught up have more to apply. `until`: where the call ends.
create or replace function cdc.report_models(slot text, is_more boolean, until pg_lsn)
returns table (
    model_name text, relation text, state text, reason text, remedy text, applied_lsn pg_lsn, engine text,
    is_locked boolean, is_behind boolean, is_finding boolean
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with said as (
        select
            models.*,
            max(models.applied_lsn) filter (where models.is_ready) over () as caught_up_lsn
        from cdc.explain_models(slot) as models
    )

    select
        cdc.command_name(slot, said.relation, said.model_name),
        said.relation,
        said.state,
        said.reason,
        said.remedy,
        said.applied_lsn,
        said.engine,
        said.is_locked,
        coalesce(
            case
                when said.step is null or said.engine = 'spark' or said.retry_at > clock_timestamp() then false
                when said.step = 'rebuild' then said.from_lsn <= coalesce(least(said.caught_up_lsn, until), said.from_lsn)
                when said.applied_lsn = said.caught_up_lsn then is_more
                else said.applied_lsn < least(coalesce(said.caught_up_lsn, said.position_lsn), until)
            end,
            false
        ),
        said.is_finding
    from said
    union all
    select
        cdc.command_name(slot, dependent.relation, dependent.model_name, dependent.inputs),
        dependent.relation,
        dependent.state,
        dependent.reason,
        dependent.remedy,
        dependent.applied_lsn,
        dependent.engine,
        false,
        dependent.step is not null and coalesce(dependent.retry_at <= clock_timestamp(), true),
        dependent.is_finding
    from cdc.plan_dependents(slot) as dependent
    order by 2;
end
$$;
