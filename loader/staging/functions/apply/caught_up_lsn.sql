-- Where the models are that have caught up and move together; null where none has.
create or replace function cdc.caught_up_lsn(slot text) returns pg_lsn
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select max(plans.applied_lsn)
        from cdc.plan_models(slot) as plans
        where plans.is_ready
    );
end
$$;
