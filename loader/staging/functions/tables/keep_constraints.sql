-- What every table has that a batch is added to. A batch finds its groups by the unique dimensions, where null
-- is a group too, and current rows by their primary key. Rows are updated in every build, and an update that
-- finds room on the page does not have to write the indexes.
create or replace function cdc.keep_constraints(
    target regclass, key_name text, is_primary boolean, key text[], required text[]
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute format(
        'alter table %s drop constraint if exists %I, set (fillfactor = 80)%s',
        target,
        key_name,
        (select string_agg(format(', alter column %I set not null', name), '') from unnest(required) as name)
    );
    if not is_primary and not exists (
        select from pg_constraint as c where c.conrelid = target and c.contype = 'p'
    ) then
        execute format('alter table %s add primary key (id)', target);
    end if;
    execute format(
        'alter table %s add constraint %I %s (%s)',
        target,
        key_name,
        case when is_primary then 'primary key' else 'unique nulls not distinct' end,
        cdc.quoted(key)
    );
end
$$;
