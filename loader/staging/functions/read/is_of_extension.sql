-- Whether a type or a function is an extension's and a superuser's: the owner of an extension may add to it what is his
-- own, and who owns a type may make a cast, which runs where such a value becomes another one.
create or replace function cdc.is_of_extension(class regclass, object oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_depend as d
        inner join pg_roles as r on r.rolsuper
        left join pg_type as t on d.classid = 'pg_type'::regclass and t.oid = d.objid and t.typtype = 'b'
        left join pg_proc as p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
        where d.classid = class and d.objid = object and d.deptype = 'e' and r.oid in (t.typowner, p.proowner)
    )
$$;
