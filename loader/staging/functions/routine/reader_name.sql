-- The function that reads the change log for the models of a slot that are queries, as SQL writes it with its
-- arguments.
create or replace function cdc.reader_name(slot text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return format(
        'cdc.%I(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean)',
        'read_' || case when length(slot) > 58 then md5(slot) else slot end
    );
end
$$;
