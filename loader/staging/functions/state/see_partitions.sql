-- Let the statements that follow see every partition of the change log that is attached by now. A transaction that has
-- read the log once may go on with the partitions that it knew then: the server looks for new ones only when it takes a
-- lock that the transaction does not hold yet. Beside a newer position their changes would seem not to be there. This
-- function locks the object that it names, and then the server always looks.
create or replace function cdc.see_partitions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_get_object_address('schema', '{pg_catalog}', '{}');
end
$$;
