-- SQL: the rows that write_queue gave, which the routine has in $5, as `own` gives these columns of each, `change`.
create or replace function cdc.write_queued(columns jsonb, own text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'select %s from unnest($5) as queued (change) cross join lateral %s',
        string_agg(case value ->> 'name'
            when 'waltally_sign' then '(queued.change ->> ''waltally_sign'')::integer as waltally_sign'
            else format(
                -- Else it would be a text in json.
                case when value ->> 'type' in ('json', 'jsonb') then '(queued.change ->> %1$L)::%2$s as %1$I' else 'own.%1$I' end,
                value ->> 'name', value ->> 'type'
            ) end, ', ' order by ordinal),
        own
    )
    from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
$$;
