-- An expression of totals with the model's columns in place of waltally_key_1 and waltally_kept_1. A key of another
-- text type is kept as text.
create or replace function cdc.name_totals(compiled jsonb, types jsonb, expression text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(
        case
            when scanned.token ~ '^waltally_kept_[0-9]+$'
                then quote_ident(compiled -> 'kept' -> (substring(scanned.token from '[0-9]+')::integer - 1) ->> 'name')
            when scanned.token ~ '^waltally_key_[0-9]+$' then (
                select case
                    when cdc.is_text(types ->> key.name) and types ->> key.name <> 'text'
                        then format('(%I)::%s', key.name, types ->> key.name)
                    else quote_ident(key.name)
                end
                from (select compiled -> 'keys' -> (substring(scanned.token from '[0-9]+')::integer - 1) ->> 'name' as name) as key
            )
            else scanned.token
        end,
        '' order by scanned.place
    )
    from cdc.scan(expression) as scanned
$$;
