-- The CTEs that a query sees, by their names, each with those that it sees itself.
create or replace function cdc.visible_ctes(query jsonb, ctes jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    entry jsonb;
begin
    for entry in select value from jsonb_array_elements(nullif(query -> 'cteList', 'null')) loop
        ctes := ctes || jsonb_build_object(
            entry ->> 'ctename', jsonb_build_object('query', entry -> 'ctequery', 'ctes', ctes)
        );
    end loop;
    return ctes;
end
$$;
