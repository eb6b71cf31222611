-- Refuse to install a model whose name a view or the like has, or another role's table: nobody could build it, and
-- what that role makes of it, as a trigger, would run with the caller's rights.
create or replace function cdc.require_table(relation text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    kind constant text := (
        select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'relation' end
        from pg_class as c where c.oid = to_regclass(relation) and c.relkind not in ('r', 'p')
    );
begin
    if kind is not null then
        raise exception '% is a %, and rows are added to a table', relation, kind
            using errcode = 'WL003', hint = format('drop %s %s; -- then dbt build', kind, relation);
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
