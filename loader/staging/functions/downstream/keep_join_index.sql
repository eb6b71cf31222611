-- Make an index that a model over models needs on an input, unless one there begins with the same columns.
create or replace function cdc.keep_join_index(
    relation text, name text, method text, columns text, plain_names text[]
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select from pg_index as i
        inner join pg_class as c on c.oid = i.indexrelid
        where
            i.indrelid = to_regclass(relation) and i.indisvalid and i.indpred is null and c.relname <> name
            and not starts_with(c.relname, 'waltally_')
            -- The same columns in whatever order, under the collation in which they are joined.
            and array(
                select a.attname::text from unnest((i.indkey::smallint[])[0:cardinality(plain_names) - 1]) as key (number)
                inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = key.number order by a.attname
            ) = array(select one from unnest(plain_names) as one order by one)
            and not '"C"'::regcollation = any ((i.indcollation::oid[])[0:cardinality(plain_names) - 1])
    ) then
        return;
    end if;
    begin
        execute format('create index if not exists %I on %s using %s (%s)', name, relation, method, columns);
    exception
        -- What a setting could spell otherwise is taken in a query, but not in an index: the group's rows are read by
        -- none.
        when invalid_object_definition then null;
    end;
end
$$;
