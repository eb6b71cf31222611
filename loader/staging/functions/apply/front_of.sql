-- Where the models are that move together; null where none does.
create or replace function cdc.front_of(slot text) returns pg_lsn
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select max(plans.applied_lsn)
        from cdc.plan_models(slot) as plans
        where plans.is_ready
    );
end
$$;
