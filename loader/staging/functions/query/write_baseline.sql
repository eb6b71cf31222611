-- SQL: fill an empty fact from its baseline, but for tables that were truncated since. `tables` are its sources as SQL
-- writes an array. Several parts may have one group; a total has its row of zeros without any.
create or replace function cdc.write_baseline(compiled jsonb, relation text, model_name text, tables text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.write_merge(compiled, relation, format(
        'select array_position(%s, counted.part) as waltally_source_no, %s from cdc.baseline_group as counted '
        'where counted.slot_name = $2 and counted.declared_name = %L and counted.part <> all (coalesce($6, ''{}''))%s',
        tables,
        string_agg(format(
            'counted.%s[%s]::%s as %I', kind, place, cdc.typed(compiled, value ->> 'name', value ->> 'type'), value ->> 'name'
        ), ', ' order by kind, place),
        model_name,
        case when (compiled ->> 'is_total')::boolean then ' union all select null' || repeat(', 0', count(*)::integer) else '' end
    ), 'false')
    from (
        select 'dimensions' as kind, value, place from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, place)
        union all
        select 'measures', value, place from jsonb_array_elements(compiled -> 'kept') with ordinality as kept (value, place)
    ) as columns
$$;
