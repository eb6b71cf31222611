-- SQL: what follows each column's name, up to the next one, in the first of the images that has it; see write_reader. A
-- column that was renamed has one of its names until a position: two would be two columns, and then it has none.
create or replace function cdc.write_tokens(columns jsonb, images text[], renamed jsonb default '{}') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        case
            when not renamed ? one.name then named.tokens[1]
            else format(
                'case when commit_lsn >= %L or num_nonnulls(%s) = 0 then %s when num_nonnulls(%s) = 1 then coalesce(%s) end',
                coalesce(renamed #>> array[one.name, 'until'], 'FFFFFFFF/FFFFFFFF'), array_to_string(named.tokens[2:], ', '), named.tokens[1],
                array_to_string(named.tokens, ', '), array_to_string(named.tokens, ', ')
            )
        end,
        e',\n' order by one.ordinal
    ), '')
    from jsonb_array_elements_text(columns) with ordinality as one (name, ordinal)
    cross join lateral (
        select array_agg(
            case when cardinality(images) = 1 then searched.first else format('coalesce(%s, %s)', searched.first, searched.second) end
            order by called.ordinal
        ) as tokens
        from (
            select one.name, 0::bigint as ordinal
            union all
            select former.name, former.ordinal
            from jsonb_array_elements_text(renamed #> array[one.name, 'former']) with ordinality as former (name, ordinal)
        ) as called
        cross join lateral (
            select
                format('nullif(split_part(split_part(%s_image, %L, 2), '',{"name":'', 1), '''')', images[1], format('{"name":%s,"value":', to_json(called.name))) as first,
                format('nullif(split_part(split_part(%s_image, %L, 2), '',{"name":'', 1), '''')', images[2], format('{"name":%s,"value":', to_json(called.name))) as second
        ) as searched
    ) as named
$$;
