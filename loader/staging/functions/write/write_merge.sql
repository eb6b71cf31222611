-- SQL: add totals to a fact's table, and give the groups that have no rows any more. `totals` is an item of FROM that
-- gives what write_totals does. `returns_rows` is a condition: then before and after get the rows that it changes: see
-- write_changed_rows. Where a key once was too long for the unique index, groups are found by a hash, `by_hash`: only
-- one session at a time writes a model. `is_empty` is a condition under which the table has no row: a plain INSERT in
-- the order of the key takes half the time.
create or replace function cdc.write_merge(
    compiled jsonb, relation text, totals text, returns_rows text, by_hash boolean, is_empty text default null
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
        case when is_empty is not null then cdc.first_template() else '' end
        || case when by_hash then cdc.hash_template() else cdc.merge_template() end
        || $check$
if waltally_least_count < 0 then
    raise exception 'a number of rows or values would fall below zero' using errcode = 'WL004';
end if;$check$,
        jsonb_build_object(
            'relation', relation,
            'totals', totals,
            'returns_rows', returns_rows,
            'is_empty', is_empty,
            'ordered', case when own.keys <> '' then format(e'where totals.%I <> 0\norder by %s', compiled ->> 'rows', cdc.write_names(compiled -> 'keys', 'totals.%I')) else '' end,
            'changed_rows', cdc.write_changed_rows(compiled, relation, 'merged', returns_rows),
            'conflict', coalesce(nullif(own.keys, ''), '(true)'),
            'hash', cdc.key_hash(compiled, 'stored'),
            'totals_hash', cdc.key_hash(compiled, 'totals'),
            'is_same', cdc.write_names(compiled -> 'keys', '(stored.%1$I %5$s totals.%1$I or num_nulls(stored.%1$I, totals.%1$I) = 2)', ' and '),
            'returned', cdc.write_returned(compiled, returns_rows),
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
    cross join (select cdc.write_names(compiled -> 'keys', '%I') as keys) as own
    group by own.keys
$$;
