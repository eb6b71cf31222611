-- Refuse to install a model whose name a view or the like has, or another role's table: nobody could build it, and
-- what that role makes of it, as a trigger, would run with the caller's rights. Or one whose key, "schema.table", is
-- that of another table: schema "a.b" may have a c, and schema a a "b.c".
create or replace function cdc.require_table(relation text, model_key text default null) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    parts constant text[] := parse_ident(relation);
    kind constant text := (
        select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'relation' end
        from pg_class as c where c.oid = to_regclass(relation) and c.relkind not in ('r', 'p')
    );
    other constant text := (
        select min(c.oid::regclass::text)
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where
            model_key like '%.%.%'
            and n.nspname || '.' || c.relname = model_key
            and format('%I.%I', n.nspname, c.relname) <> relation
    );
    -- A table that was renamed keeps the index by which its model's key goes.
    key_name constant text := format('%I.%I', parts[1], format('uix_%s_dimensions', parts[2])::name);
    keeper constant text := (
        select c.relname from pg_index as x
        inner join pg_class as c on c.oid = x.indrelid
        where x.indexrelid = to_regclass(key_name) and to_regclass(relation) is null
    );
begin
    if other is not null then
        raise exception '% and % are one name to waltally: %', relation, other, model_key
            using errcode = 'WL003', hint = 'Name one of them without a dot.';
    end if;
    if keeper is not null then
        raise exception '% has the index %, which is to be the key of %', keeper, key_name, relation
            using
                errcode = 'WL003',
                hint = format('alter index %s rename to %I; -- then dbt build', key_name, format('uix_%s_dimensions', keeper));
    end if;
    if kind is not null then
        raise exception '% is a %, and rows are added to a table', relation, kind
            using errcode = 'WL003', hint = format('drop %s %s; -- then dbt build', kind, relation);
    elsif exists (select from pg_class as c where c.oid = to_regclass(relation) and c.relpersistence = 'u') then
        raise exception '% is unlogged: a crash would empty it, and its model would not know', relation
            using errcode = 'WL003', hint = format('alter table %s set logged; -- then dbt build', relation);
    elsif exists (
        select from pg_class as c where c.oid = to_regclass(relation) and not pg_has_role(c.relowner, 'usage')
    ) then
        raise exception '% belongs to another role', relation
            using
                errcode = 'WL003',
                hint = format('alter table %s owner to %I; -- then dbt build', relation, current_user);
    end if;
end
$$;
