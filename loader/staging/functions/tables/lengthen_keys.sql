-- Let a fact's table have keys that are too long for an index: one by their hash takes the place of that by their
-- columns. False if it has: then something else was too long. Readers wait only from the second statement on.
create or replace function cdc.lengthen_keys(target regclass, hash text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    own_key text;
begin
    select c.conname into own_key
    from pg_constraint as c
    inner join pg_index as x on x.indexrelid = c.conindid
    where c.conrelid = target and c.contype = 'u' and x.indnullsnotdistinct;
    if not found then
        return false;
    end if;
    execute format('create index on %s ((%s))', target, hash);
    execute format('alter table %s drop constraint %I', target, own_key);
    return true;
end
$$;
