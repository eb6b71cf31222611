-- After an error of a value that does not fit a model's table, let the table have it. False if nothing is left to
-- change: then something else did not fit. A key that is too long for an index gets one by its `hash` in place of that
-- by its columns; readers wait only from the second statement on. A length that was widened at the source goes.
create or replace function cdc.make_room(target regclass, hash text, state text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    own_key constant text := (
        select c.conname
        from pg_constraint as c
        inner join pg_index as x on x.indexrelid = c.conindid
        where c.conrelid = target and c.contype = 'u' and x.indnullsnotdistinct and state = '54000' and hash is not null
    );
    changes text;
begin
    if own_key is not null then
        execute format('create index on %s ((%s))', target, hash);
        execute format('alter table %s drop constraint %I', target, own_key);
        return true;
    end if;
    select string_agg(change.text, ', ' order by change.step, a.attnum) into changes
    from pg_attribute as a
    left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated <> ''
    left join pg_collation as c on c.oid = a.attcollation
    cross join lateral (
        select cdc.plain_type(a.atttypid) || coalesce(' collate ' || c.oid::regcollation::text, '') as sql
    ) as plain
    cross join lateral (
        select format('alter column %I type %s', a.attname, plain.sql) as text, 2 as step
        where d.oid is null and a.atttypmod <> -1
        union all
        -- PostgreSQL changes no type of a column that is read by a generated one.
        select derived.*
        from (values
            (format('drop column %I', a.attname), 1),
            (format('add column %I %s generated always as (%s) stored', a.attname, plain.sql, pg_get_expr(d.adbin, d.adrelid)), 3)
        ) as derived
        where d.oid is not null
    ) as change
    where
        a.attrelid = target and a.attnum > 0 and not a.attisdropped and state in ('22001', '22003', '22026')
        and exists (
            select from pg_attribute as one
            where one.attrelid = target and one.attnum > 0 and not one.attisdropped and one.atttypmod <> -1
        );
    if changes is not null then
        execute format('alter table %s %s', target, changes);
    end if;
    return changes is not null;
exception
    when dependent_objects_still_exist or feature_not_supported then
        raise exception 'a value is longer than its column of %, whose length cannot go: %', target, sqlerrm
            using hint = 'Drop the view that reads the column, and make it again once the model follows.';
end
$$;
