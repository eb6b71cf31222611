-- Whether the triggers of a roll-up have something to do.
create or replace function cdc.is_kept(model text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from cdc.roll_up as rolled where rolled.model_name = model and not rolled.is_due)
$$;

revoke execute on function cdc.is_kept(text) from public;
