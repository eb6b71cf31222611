-- Make the tables of a roll-up that hold how often each value is in each group, and drop those that it had before and
-- needs no more. A comment marks a table as ours and says for what; another table of that name is refused. Return
-- whether one was made. Runs with the rights of dbt's role, which owns them.
create or replace function cdc.keep_value_tables(model text, tables text[], types text[]) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    mark constant text := 'waltally keeps the values of ' || model || ' by ';
    wanted record;
    is_made boolean := false;
begin
    for wanted in
        select
            own.name,
            own.type,
            mark || own.type as comment,
            to_regclass(own.name) as relation,
            obj_description(to_regclass(own.name), 'pg_class') as present
        from (
            select * from unnest(tables, types) as needed (name, type)
            union all
            select former.name, null
            from cdc.marked_object as former
            where
                former.model_name = model
                and former.kind = 'table'
                and not exists (
                    select from unnest(tables) as needed where to_regclass(needed) = to_regclass(former.name)
                )
        ) as own
    loop
        continue when wanted.present = wanted.comment;
        if wanted.relation is not null and not coalesce(starts_with(wanted.present, mark), false) then
            raise exception '% needs a table %, and there is another one of that name', model, wanted.name
                using hint = 'rename that table or the model, then `dbt build`';
        end if;
        execute format('drop table if exists %s', wanted.name);
        continue when wanted.type is null;
        execute format(
            'create table %s ('
            'id uuid not null, value %s not null, group_count bigint not null, weight numeric not null, '
            'primary key (id, value))',
            wanted.name, wanted.type
        );
        execute format('create index on %s (id) where group_count = 0', wanted.name);
        execute format('comment on table %s is %L', wanted.name, wanted.comment);
        is_made := true;
    end loop;
    return is_made;
end
$$;
