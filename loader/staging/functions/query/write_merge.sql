-- SQL: add totals to a fact's table, and give the groups that have no rows any more. They come from `totals`, a query
-- that gives the source's number, the keys and what is added to what is kept, or is kept now. `is_watched` is a
-- condition: then before and after get the rows that it changes: see write_told. Where a key once was too long for the
-- unique index, groups are found by a hash: only one session at a time writes a model.
create or replace function cdc.write_merge(compiled jsonb, relation text, totals text, is_watched text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    key_list constant text := cdc.write_names(compiled -> 'keys', '%I');
    hash constant text := cdc.key_hash(compiled, 'stored');
    -- Not added up, but computed anew for a group.
    anew constant text[] := array(
        select value ->> 'name' from jsonb_array_elements(compiled -> 'kept') where value ->> 'again' !~ '^count\(DISTINCT\s'
    );
begin
    return (
        select cdc.fill(
            cdc.merge_template(hash is not null),
        jsonb_build_object(
            'relation', relation,
            'relation_name', quote_literal(relation),
            'totals', totals,
            'is_watched', is_watched,
            'told', cdc.write_told(compiled, relation, 'merged', is_watched),
            'keys', case when key_list <> '' then cdc.write_collated(compiled, compiled -> 'keys', '%s as %I') || e',\n        ' else '' end,
            -- Without GROUP BY the sums of no rows are a row too, and nothing is to be added.
            'grouped', case when key_list <> '' then e'\n    group by ' || cdc.write_collated(compiled, compiled -> 'keys', '%s') else e'\n    having count(*) > 0' end,
            'conflict', case when key_list <> '' then key_list else '(true)' end,
            'hash', hash,
            'totals_hash', cdc.key_hash(compiled, 'totals'),
            'is_same', cdc.write_names(compiled -> 'keys', 'stored.%1$I is not distinct from totals.%1$I', ' and '),
            'returned', concat_ws(
                ', ', nullif(cdc.write_names(compiled -> 'keys', 'stored.%I'), ''), 'stored.ctid as waltally_place',
                format('stored.%I as waltally_rows', compiled ->> 'rows'),
                format('least(%s) as waltally_least', (
                    select string_agg(format('stored.%I', value ->> 'name'), ', ')
                    from jsonb_array_elements(compiled -> 'kept') where not value ? 'counted_by' and value ->> 'name' <> all (anew)
                )),
                format(
                    'case when %s%s then stored.* end as waltally_row', is_watched,
                    case when key_list <> '' then format(' and stored.%I > 0', compiled ->> 'rows') else '' end
                )
            ),
            'sums', (
                select string_agg(format(
                    case
                        -- There is one of each group; arrays in an array would be one array.
                        when value ->> 'name' = any (anew) and value ->> 'type' like '%[]' then 'max(%I) as %I'
                        when value ->> 'name' = any (anew) then '(array_agg(%I))[1] as %I'
                        when value ->> 'type' = 'bigint' then 'sum(%I)::bigint as %I'
                        -- Over sources the deltas are finite, see write_deltas.
                        when value ->> 'type' = 'numeric' and compiled ? 'inputs' then 'cdc.finite(sum(%I)) as %I'
                        else 'sum(%I) as %I'
                    end, value ->> 'name', value ->> 'name'
                ), e',\n        ' order by place)
                from jsonb_array_elements(compiled -> 'kept') with ordinality as one (value, place)
            ) || coalesce((
                select string_agg(
                    format(
                        e',\n        coalesce(sum(%I) filter (where waltally_source_no = %s), 0)%s as %I',
                        part.kept_name, part.source_no, case part.type when 'bigint' then '::bigint' else '' end, part.name
                    ), '' order by part.place
                )
                from cdc.part_columns(compiled) as part
            ), ''),
            'columns', string_agg(quote_ident(one.name), ', ' order by one.place) filter (where one.kind <> 'derived'),
            'values', string_agg(case
                when one.kind = 'id' then cdc.write_id(compiled, 'totals')
                when one.counted_by is not null
                    then format('case when totals.%1$I <> 0 or totals.%2$I <> 0 then totals.%2$I end', one.counted_by, one.name)
                else cdc.write_whole(format('totals.%I', one.name), one.exact, relation)
            end, ', ' order by one.place) filter (where one.kind <> 'derived'),
            'additions', string_agg(
                case
                    when one.name = any (anew) then format('%1$I = excluded.%1$I', one.name)
                    when one.counted_by is null then format('%1$I = stored.%1$I + excluded.%1$I', one.name)
                    -- A sum of no values is null.
                    else format(
                        '%1$I = case when stored.%2$I + excluded.%2$I > 0 then coalesce(stored.%1$I, 0) + coalesce(excluded.%1$I, 0) end',
                        one.name, one.counted_by
                    )
                end,
                e',\n        ' order by one.place
            ) filter (where one.kind in ('kept', 'part'))
        ))
        from cdc.list_columns(compiled) as one
    );
end
$$;
