-- Let the statements that follow see every partition of the change log that is attached by now. A transaction that has
-- read the log once may go on with the partitions that it knew then: the server looks for new ones only where it parses
-- a statement, or takes a lock that the transaction does not hold yet. A function's own statements are parsed once, and
-- beside a newer position the changes of a new partition would seem not to be there.
create or replace function cdc.see_partitions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    execute 'select from only cdc.change_log';
end
$$;
