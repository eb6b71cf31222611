-- SQL: `value`, an expression of a row's key, or an error of the row whose key has a NaN, which is null when it is
-- read, or is too long for an index. A source's server evaluates it too, which has no function of ours: a cast fails.
create or replace function cdc.write_row_key(compiled jsonb, value text, type text default 'text') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'case when num_nulls(%1$s) > 0 then concat(''the key has a NaN or an infinity'')::numeric::text::%3$s '
        'when pg_column_size(row(%4$s)) > 2600 then concat(''the key does not fit an index'')::numeric::text::%3$s '
        'else %2$s end',
        cdc.write_names(compiled -> 'keys', 'query.%I'), value, type,
        (
            -- A table may hold a value compressed, an array never does.
            select string_agg(format(case when one.value ->> 'type' in ('bigint', 'integer', 'uuid') then 'query.%I' else 'array[query.%I]' end, one.value ->> 'name'), ', ')
            from jsonb_array_elements(compiled -> 'keys') as one
        )
    )
$$;
