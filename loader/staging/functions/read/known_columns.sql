-- A source's table with those collations of its columns alone that are the same in this database, where texts of the
-- others have the default one, and with those types of extensions that this database has.
create or replace function cdc.known_columns(source jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select source || case when source ? 'columns' then jsonb_build_object('columns', (
        select coalesce(jsonb_agg(
            own.value - 'collation_is' - case when same.is_same then '' else 'collation' end || case
                when own.value ->> 'type' ~ '\.' and not coalesce(
                    cdc.is_of_extension('pg_type', to_regtype(regexp_replace(own.value ->> 'type', '\[\]$', ''))), false
                ) then '{"type": "other"}' else '{}'
            end::jsonb order by own.ordinal
        ), '[]')
        from jsonb_array_elements(source -> 'columns') with ordinality as own (value, ordinal)
        left join pg_collation as c on c.oid = to_regcollation(own.value ->> 'collation')
        cross join lateral (
            -- Not a condition of the join, which would print each collation of the server.
            select own.value ->> 'collation_is' = concat_ws(
                ' ', c.collprovider, c.collcollate, to_jsonb(c) ->> 'colliculocale', to_jsonb(c) ->> 'colllocale', c.collisdeterministic
            ) as is_same
        ) as same
    )) else '{}' end
$$;
