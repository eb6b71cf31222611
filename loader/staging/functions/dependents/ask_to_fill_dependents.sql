-- Have every dependent of a model, at any depth, filled again.
create or replace function cdc.ask_to_fill_dependents(model text, reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform cdc.ask_to_fill(dependent.relation, reason)
    from cdc.dependents_of(array[model]) as dependent (relation)
    where cdc.takes_changes(dependent.relation);
end
$$;
