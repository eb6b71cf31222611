-- An input of a model over models that has not the columns or the key any more that it was compiled for; null if none.
create or replace function cdc.changed_input(model text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(input.value ->> 'model')
        from cdc.dependent_model as own
        cross join jsonb_array_elements(own.declaration -> 'inputs') as input
        cross join lateral (select to_regclass(format('%I.%I', input.value ->> 'schema', input.value ->> 'name')) as oid) as relation
        where own.relation = model and (
            -- Rows that differ in nothing else are told apart by it.
            not exists (
                select from pg_index as i
                where i.indrelid = relation.oid and (i.indisunique or i.indkey = '0') and array(
                    select a.attname::text collate "C" from pg_attribute as a
                    where a.attrelid = relation.oid and (a.attnum = any (i.indkey) or i.indkey = '0' and exists (
                        select from pg_depend as of_hash
                        where
                            of_hash.classid = 'pg_class'::regclass and of_hash.objid = i.indexrelid
                            and of_hash.refobjid = relation.oid and of_hash.refobjsubid = a.attnum
                    )) order by 1
                ) = array(select key.value ->> 'name' collate "C" from jsonb_array_elements(input.value -> 'key') as key order by 1)
            )
            -- Asked column by column: a join would read the whole catalog.
            or exists (
                select from jsonb_array_elements(input.value -> 'columns') as needed
                where (
                    select case when a.attnotnull or not needed.value ? 'is_never_null' then a.atttypid end
                    from pg_attribute as a
                    where a.attrelid = relation.oid and a.attname = needed.value ->> 'name' and not a.attisdropped
                ) is distinct from to_regtype(needed.value ->> 'type')
            )
        )
    );
end
$$;
