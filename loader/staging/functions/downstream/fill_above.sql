-- Have every model over this one, at any depth, filled again.
create or replace function cdc.fill_above(model text, reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform cdc.ask_to_fill(above.name, reason)
    from cdc.models_above(array[model]) as above (name)
    where cdc.is_told(above.name);
end
$$;
