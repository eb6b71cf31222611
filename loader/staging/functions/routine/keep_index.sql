-- Make an index that a model over models needs on an input, where none there serves; see needed_indexes.
create or replace function cdc.keep_index(needed jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if cdc.has_index(needed) then
        return;
    end if;
    begin
        execute format('create index %I on %s using %s (%s)', needed ->> 'name', needed ->> 'relation', needed ->> 'method', needed ->> 'columns');
    exception
        -- What a setting could spell otherwise, or a sub-select, is taken in a query, but not in an index: the group's
        -- rows are read by none.
        when invalid_object_definition or feature_not_supported then null;
    end;
end
$$;
