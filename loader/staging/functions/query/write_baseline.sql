-- SQL: fill an empty fact from its baseline, but for tables that were truncated since. Several parts may have one
-- group.
create or replace function cdc.write_baseline(compiled jsonb, relation text, model_name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    keys constant text := coalesce((
        select string_agg(format('counted.dimensions[%s]::%s', place, value ->> 'type'), ', ' order by place)
        from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, place)
    ), '');
    columns constant text := (
        select string_agg(quote_ident(one.name), ', ' order by one.place)
        from cdc.list_columns(compiled) as one where one.kind <> 'derived'
    );
begin
    return cdc.fill(
$template$insert into {relation} ({columns})
        select {values}
        from cdc.baseline_group as counted
        where counted.slot_name = $2 and counted.declared_name = {model_name} and counted.part <> all (coalesce($6, '{}')){grouped};$template$,
        jsonb_build_object(
            'relation', relation,
            'columns', columns,
            'model_name', quote_literal(model_name),
            'grouped', case when keys <> '' then e'\n        group by ' || keys else '' end,
            'values', (
                select string_agg(
                    case one.kind
                        when 'id' then format('md5(row(%s)::text)::uuid', keys)
                        when 'key' then format('counted.dimensions[%s]::%s', key.place, one.type)
                        when 'part' then format(
                            e'\n            coalesce(sum(counted.measures[%s]) filter (where counted.part = %L), 0)::%s', own.place,
                            compiled -> 'sources' -> (part.source_no - 1) ->> 'table', one.type
                        )
                        else format(
                            case when own.counted_by is null then e'\n            coalesce(sum(counted.measures[%1$s]), 0)::%2$s'
                            -- A sum of no values is null.
                            else e'\n            case when sum(counted.measures[%3$s]) <> 0 then sum(counted.measures[%1$s])::%2$s end' end,
                            own.place, one.type, counting.place
                        )
                    end, ', ' order by one.place
                )
                from cdc.list_columns(compiled) as one
                left join cdc.part_columns(compiled) as part on part.name = one.name
                left join lateral (
                    select kept.place, kept.value ->> 'counted_by' as counted_by
                    from jsonb_array_elements(compiled -> 'kept') with ordinality as kept (value, place)
                    where kept.value ->> 'name' = coalesce(part.kept_name, one.name)
                ) as own on true
                left join lateral (
                    select kept.place from jsonb_array_elements(compiled -> 'kept') with ordinality as kept (value, place)
                    where kept.value ->> 'name' = own.counted_by
                ) as counting on true
                left join lateral (
                    select key.place from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, place)
                    where key.value ->> 'name' = one.name
                ) as key on true
                where one.kind <> 'derived'
            )
        )
    );
end
$$;
