-- An expression of totals with the model's columns in place of waltally_key_1 and waltally_kept_1. A key of another
-- text type is kept as text; a text has the collation "C" there, and is compared and converted by the default one.
create or replace function cdc.name_totals(compiled jsonb, types jsonb, expression text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(
        case
            when named.name is null then scanned.token
            when scanned.token ~ '_key_' and cdc.is_text(named.type) and named.type <> 'text'
                then format('(%I collate "default")::%s', named.name, named.type)
            when cdc.has_collation(rtrim(named.type, '[]')) then format('(%I collate "default")', named.name)
            else quote_ident(named.name)
        end,
        '' order by scanned.place
    )
    from cdc.scan(expression) as scanned
    left join lateral (
        select own.name, types ->> own.name as type
        from (
            select compiled #>> array[
                case when scanned.token ~ '_key_' then 'keys' else 'kept' end, (substring(scanned.token from '[0-9]+')::integer - 1)::text, 'name'
            ] as name
            where scanned.token ~ '^waltally_(key|kept)_[0-9]+$'
        ) as own
    ) as named on true
$$;
