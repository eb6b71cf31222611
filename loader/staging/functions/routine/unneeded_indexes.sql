-- The indexes of ours on models of a schema that no model over models needs, where others serve for what does: the
-- narrowest first, which a wider one may serve for.
create or replace function cdc.unneeded_indexes(model_schema text) returns setof regclass
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    -- By index what it serves for.
    serves jsonb := (
        select coalesce(jsonb_object_agg(own.index, own.needs), '{}')
        from (
            select i.indexrelid as index, jsonb_agg(needed.value) as needs
            from (
                select distinct one.value from cdc.dependent_model as model cross join jsonb_array_elements(model.indexes) as one
            ) as needed
            inner join pg_index as i on i.indrelid = to_regclass(needed.value ->> 'relation')
            where cdc.index_serves(i.indexrelid, needed.value)
            group by i.indexrelid
        ) as own
    );
    index oid;
begin
    for index in
        select c.oid
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where c.relkind = 'i' and n.nspname = model_schema and c.relname ~ '^waltally_[0-9a-f]{32}$'
        order by c.relnatts, c.relname
    loop
        continue when exists (
            select from jsonb_array_elements(serves -> index::text) as needed
            where not exists (
                select from jsonb_each(serves) as other where other.key <> index::text and other.value @> jsonb_build_array(needed.value)
            )
        );
        serves := serves - index::text;
        return next index;
    end loop;
end
$$;
