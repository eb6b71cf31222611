-- An expression of totals with the model's columns in place of waltally_key_1 and waltally_state_1.
create or replace function cdc.name_totals(compiled jsonb, expression text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(coalesce(quote_ident(named.name), scanned.token), '' order by scanned.ordinal)
    from cdc.scan(expression) as scanned
    left join lateral (
        select compiled #>> array[
            case when scanned.token ~ '_key_' then 'keys' else 'state_columns' end, (substring(scanned.token from '[0-9]+')::integer - 1)::text, 'name'
        ] as name
        where scanned.token ~ '^waltally_(key|state)_[0-9]+$'
    ) as named on true
$$;
