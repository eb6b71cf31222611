-- By the name of each column that the select of a roll-up sees, as PostgreSQL prints it, the column of the model that
-- it is: {"orders.placed": "placed_at"}; null where it is computed on the way. Of one table, also without its name.
create or replace function cdc.base_columns(tree jsonb, inner_tree jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    ctes jsonb := cdc.visible_ctes(tree, '{}');
begin
    -- The selects on the way to the inner one may have CTEs of their own.
    ctes := cdc.visible_ctes(inner_tree, ctes);
    return (
        select coalesce(jsonb_object_agg(printed.name, own.origin -> 1), '{}')
        from jsonb_array_elements(inner_tree -> 'rtable') with ordinality as entry (value, ordinal)
        cross join lateral jsonb_array_elements_text(entry.value #> '{eref,colnames}') with ordinality as named (name, ordinal)
        cross join lateral (
            select cdc.origin_of(
                jsonb_build_object('_', 'VAR', 'varno', entry.ordinal::text, 'varattno', named.ordinal::text, 'varlevelsup', '0'), inner_tree, ctes
            ) as origin
        ) as own
        cross join lateral (
            select format('%I.%I', entry.value #>> '{eref,aliasname}', named.name) as name
            union all
            select format('%I', named.name)
            -- From PostgreSQL 18 on what it groups by is an entry, too.
            where jsonb_array_length(jsonb_path_query_array(inner_tree, '$.rtable[*] ? (@.rtekind != "9")')) = 1
        ) as printed
        where entry.value ->> 'rtekind' in ('0', '1', '6')
    );
end
$$;
