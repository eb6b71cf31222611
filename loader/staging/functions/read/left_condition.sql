-- The condition of the LEFT JOIN of an input with a neighbour, as PostgreSQL prints it, and the names of the two there:
-- waltally_source_2 orders ON ((orders.customer_id = customers.id)). None where USING says it, or where columns have
-- other names there.
create or replace function cdc.left_condition(query text, number integer, neighbour integer)
returns table (own_name text, near_name text, condition text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with tokens as (
        select * from cdc.scan(query)
    ),

    words as (
        select
            tokens.*,
            lead(tokens.token) over following as name,
            lead(tokens.token, 2) over following as next_word,
            lead(tokens.ordinal, 3) over following as begin_position,
            lead(tokens.depth, 3) over following as begin_depth
        from tokens
        where tokens.token !~ '^\s+$'
        window following as (order by tokens.ordinal)
    )

    select
        own.name,
        near.name,
        (
            select string_agg(tokens.token, '' order by tokens.ordinal)
            from tokens
            where tokens.ordinal between own.begin_position and (
                select min(words.ordinal) from words
                where words.ordinal > own.begin_position and words.token = ')' and words.depth = own.begin_depth
            )
        )
    from words as own
    inner join words as near on near.token = 'waltally_source_' || neighbour::text and near.next_word <> '('
    where own.token = 'waltally_source_' || number::text and own.next_word = 'ON'
$$;
