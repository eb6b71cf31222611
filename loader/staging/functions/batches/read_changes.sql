-- The changes of one part of a batch as the slot's reader gives them; 0001_tables.sql describes their type, `change`.
-- from and to bound the batch, since a TRUNCATE at its end cancels what comes before; first and end bound the part, a
-- position and an ordinal each. is_each keeps apart what looks alike. Runs with the rights of the reader's owner alone.
create or replace function cdc.read_changes(
    slot text,
    from_lsn pg_lsn,
    to_lsn pg_lsn,
    first_lsn pg_lsn,
    first_ordinal bigint,
    end_lsn pg_lsn,
    end_ordinal bigint,
    is_each boolean
) returns cdc.change[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    changes cdc.change[];
    target record := cdc.find_installed(
        cdc.reader_name(slot), '(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean)', array['cdc.change[]']
    );
begin
    execute format('select %s(cdc.unless_replaced($1, $9, $10), $2, $3, $4, $5, $6, $7, $8)', target.name)
    into changes
    using
        slot, from_lsn, to_lsn, first_lsn, first_ordinal, end_lsn, end_ordinal, is_each,
        target.oid, target.version;
    return changes;
end
$$;
