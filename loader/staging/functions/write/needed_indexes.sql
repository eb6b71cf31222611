-- The indexes by which a model over models finds what meets a changed row, or belongs to a touched group: see
-- group_indexes. "relation" and "columns" as SQL writes them, "method", and "plain_names" where another index may serve
-- that begins with these columns. No index holds a value of unbounded length: that would make the input fail. Bits and
-- what a text search compares have no hash, so no index.
create or replace function cdc.needed_indexes(compiled jsonb, relation text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    with joined as (
        select distinct sides.own_no, sides.column_name, sides.other_no
        from jsonb_array_elements(compiled #> '{joins,equal}') as pair
        cross join lateral (values
            ((pair.value ->> 0)::integer, pair.value ->> 1, (pair.value ->> 2)::integer),
            ((pair.value ->> 2)::integer, pair.value ->> 3, (pair.value ->> 0)::integer)
        ) as sides (own_no, column_name, other_no)
    ),

    typed as (
        select
            joined.*,
            input.value as input,
            cdc.is_short(own.value ->> 'type')
            -- A table's primary key.
            or (own.value ->> 'is_never_null')::boolean is true as is_short
        from joined
        cross join lateral (select compiled -> 'inputs' -> (joined.own_no - 1) as value) as input
        inner join jsonb_array_elements(input.value -> 'columns') as own
            on own.value ->> 'name' = joined.column_name and own.value ->> 'type' !~ '^("bit"|bit varying|tsvector|tsquery)'
    ),

    of_joins as (
        select
            format('%I.%I', typed.input ->> 'schema', typed.input ->> 'name') as relation,
            case when bool_or(typed.is_short) then 'btree' else 'hash' end as method,
            array_agg(typed.column_name order by typed.column_name) filter (where typed.is_short) as short_names,
            min(typed.column_name) as first_name
        from typed
        group by typed.own_no, typed.other_no, typed.input
    ),

    listed as (
        select
            of_joins.relation,
            of_joins.method,
            (
                select string_agg(quote_ident(name), ', ' order by ordinal)
                from unnest(coalesce(of_joins.short_names, array[of_joins.first_name])) with ordinality as one (name, ordinal)
            ) as columns,
            of_joins.short_names as plain_names
        from of_joins
        union
        select own.relation, 'btree', own.columns, null from cdc.group_indexes(compiled, needed_indexes.relation) as own
    )

    select coalesce(jsonb_agg(to_jsonb(listed) || jsonb_build_object('name', 'waltally_' || md5(relation || method || columns)) order by relation, columns), '[]')
    from listed
$$;
