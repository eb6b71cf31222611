-- A change with why nothing is known of its row.
create or replace function cdc.not_held(change cdc.change) returns cdc.change
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    change.problem := 'an unchanged large value is not in the change, and the model does not hold it: with replica identity full it is';
    return change;
end
$$;
