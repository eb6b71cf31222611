-- Let PostgreSQL read a query over the tables of stub_sources, as name_sources names them, and return what it made of
-- it: the text with every name resolved, in which the sources are waltally_source_1, 2, ..., the parse tree as the
-- catalog prints it, the columns, and by column a collation that is not its type's own. Columns of `numbered` that were
-- renamed are named as before in the query, and printed as now.
create or replace function cdc.read_query(
    named text, out printed text, out tree text, out columns jsonb, out collations jsonb, numbered jsonb default '[]'
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- As the query says it; the view has all that it found.
    perform set_config('search_path', concat_ws(', ', 'pg_catalog, pg_temp', (
        select string_agg(distinct t.typnamespace::regnamespace::text, ', ')
        from pg_class as c
        inner join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0
        inner join pg_type as t on t.oid = a.atttypid
        inner join pg_type as own on own.oid = 'cdc.other_value'::regtype
        where
            t.typnamespace not in ('pg_catalog'::regnamespace, own.typnamespace, pg_my_temp_schema())
            and c.relnamespace = pg_my_temp_schema() and c.relname ~ '^waltally_source_'
    )), true);
    execute format('create temporary view waltally_query as %s', named);
    perform set_config('search_path', 'pg_catalog, pg_temp', true);
    perform cdc.rename_stubs(numbered, 'name', 'renamed');
    select
        (
            select string_agg(
                case when scanned.token ~ '^waltally_enum_[0-9a-f]+$' then 'text' else scanned.token end,
                '' order by scanned.ordinal
            )
            from (
                select
                    tokens.*,
                    string_agg(tokens.token, '') over (order by ordinal rows between 1 preceding and 2 following) as near
                from cdc.scan(pg_get_viewdef(rule.ev_class)) as tokens
            ) as scanned
            -- The schema of the stubs, whose name a column may have.
            where not (scanned.token ~ '^(pg_temp|\.)' and scanned.near ~ 'pg_temp(_\d+)?\.waltally_(source|enum)_')
        ),
        rule.ev_action
    into printed, tree
    from pg_rewrite as rule
    where rule.ev_class = to_regclass('pg_temp.waltally_query');
    select
        jsonb_agg(jsonb_build_object('name', a.attname) || cdc.column_type(a) order by a.attnum),
        coalesce(jsonb_object_agg(a.attname, format('%I.%I', n.nspname, c.collname)) filter (where c.oid is not null), '{}')
    into columns, collations
    from pg_attribute as a
    inner join pg_type as t on t.oid = a.atttypid
    left join pg_collation as c on c.oid = a.attcollation and c.oid <> t.typcollation
    left join pg_namespace as n on n.oid = c.collnamespace
    where a.attrelid = to_regclass('pg_temp.waltally_query') and a.attnum > 0;
    drop view pg_temp.waltally_query;
    perform cdc.rename_stubs(numbered, 'renamed', 'name');
end
$$;
