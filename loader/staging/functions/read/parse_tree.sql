-- A parse tree as the catalog prints it (pg_node_tree) as JSON: an object for a node, its type under "_", an array
-- for a list, a string for anything else, null for nothing.
-- https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/nodes/outfuncs.c, outToken, says how names are
-- escaped.
create or replace function cdc.parse_tree(tree text) returns jsonb
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with pieces as (
        select
            one.ordinal,
            one.field,
            substr(one.token, coalesce(length(one.field) + 3, 1)) as piece,
            lag(one.token) over (order by one.ordinal) as former
        from (
            -- A field comes with its value, or the beginning of it: so a name that begins with a colon is no field.
            select found.ordinal, found.match[1] as token, substring(found.match[1] from '^:([A-Za-z_]+) ') as field
            -- Brackets that capture would take four times as long.
            from regexp_matches(
                tree, $re$(?::[A-Za-z_]+ )?(?:\{[A-Z_]+|[})(]|[0-9]+ \[ [-0-9 ]*\]|(?:\\.|[^ \n\t(){}\\])+)$re$, 'g'
            ) with ordinality as found (match, ordinal)
        ) as one
    )

    select string_agg(
        case
            when field is not null then ',' || to_json(field)::text || ':'
            when piece not in (')', '}') and former !~ '(^| )\($' then ','
            else ''
        end || case
            when piece = '(' then '['
            when piece = ')' then ']'
            when piece = '}' then '}'
            when piece ~ '^\{' then '{"_":' || to_json(substr(piece, 2))::text
            when piece = '<>' then 'null'
            else to_json(regexp_replace(
                case when piece ~ '^".*"$' then substr(piece, 2, length(piece) - 2) else piece end,
                '\\(.)', '\1', 'g'
            ))::text
        end,
        '' order by ordinal
    )::jsonb
    from pieces
$$;
