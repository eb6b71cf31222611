-- SQL: add totals to a fact's table, and give the groups that have no rows any more. They come from `totals`, a query
-- that gives the source's number, the keys and what is added to what is kept, or is kept now. `returns_rows` is a
-- condition: then before and after get the rows that it changes: see write_changed_rows. Where a key once was too long
-- for the unique index, groups are found by a hash: only one session at a time writes a model. `is_empty` is a
-- condition under which the table has no row: a plain INSERT in the order of the key takes half the time.
create or replace function cdc.write_merge(
    compiled jsonb, relation text, totals text, returns_rows text, is_empty text default null
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
        case when is_empty is not null then cdc.first_template() else '' end || cdc.merge_template(own.hash is not null),
        jsonb_build_object(
            'relation', relation,
            'relation_name', quote_literal(relation),
            'totals', totals,
            'returns_rows', returns_rows,
            'is_empty', is_empty,
            'ordered', case when own.keys <> '' then format(e'where totals.%I <> 0\n    order by %s', compiled ->> 'rows', cdc.write_names(compiled -> 'keys', 'totals.%I')) else '' end,
            'changed_rows', cdc.write_changed_rows(compiled, relation, 'merged', returns_rows),
            'keys', case when own.keys <> '' then cdc.write_collated(compiled, compiled -> 'keys') || e',\n        ' else '' end,
            -- Without GROUP BY the sums of no rows are a row too, and nothing is to be added.
            'grouped', case when own.keys <> '' then 'group by ' || cdc.write_collated(compiled, compiled -> 'keys', false) else 'having count(*) > 0' end,
            'conflict', coalesce(nullif(own.keys, ''), '(true)'),
            'hash', own.hash,
            'totals_hash', cdc.key_hash(compiled, 'totals'),
            'is_same', cdc.write_names(compiled -> 'keys', '(stored.%1$I %5$s totals.%1$I or num_nulls(stored.%1$I, totals.%1$I) = 2)', ' and '),
            'returned', cdc.write_returned(compiled, returns_rows),
            'sums', cdc.write_sums(compiled),
            'columns', cdc.join_lines(array_agg(quote_ident(one.name) order by one.ordinal) filter (where one.kind <> 'expression')),
            'values', cdc.join_lines(array_agg(case
                when one.kind = 'id' then cdc.write_id(compiled, 'totals')
                when one.counted_by is not null
                    then format('case when totals.%1$I <> 0 or totals.%2$I <> 0 then totals.%2$I end', one.counted_by, one.name)
                else cdc.write_whole(format('totals.%I', one.name), one.exact, relation)
            end order by one.ordinal) filter (where one.kind <> 'expression')),
            'additions', cdc.join_lines(array_agg(
                case
                    when cdc.is_anew(compiled, one.name) then format('%1$I = excluded.%1$I', one.name)
                    when one.counted_by is null then format('%1$I = stored.%1$I + excluded.%1$I', one.name)
                    -- A sum of no values is null.
                    else format(
                        '%1$I = case when stored.%2$I + excluded.%2$I > 0 then coalesce(stored.%1$I, 0) + coalesce(excluded.%1$I, 0) end',
                        one.name, one.counted_by
                    )
                end order by one.ordinal
            ) filter (where one.kind in ('state', 'part')))
        )
    )
    from cdc.list_columns(compiled) as one
    cross join (select cdc.write_names(compiled -> 'keys', '%I') as keys, cdc.key_hash(compiled, 'stored') as hash) as own
    group by own.keys, own.hash
$$;
