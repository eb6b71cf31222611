-- The select to which steps of unwrap_query lead, in a query as pg_get_viewdef prints it, with what stands before and
-- after it. The selects around it hand up all of its columns, and the CTEs after it are left out, which may name them.
create or replace function cdc.inner_select(sql text, steps jsonb, out before text, out inner_sql text, out after text)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    -- The name of a CTE, or null for a sub-select.
    way constant text := steps ->> 0;
    parts record;
    outer_text text;
    opened bigint;
    closed bigint;
    deeper record;
    tokens text[];
begin
    before := '';
    inner_sql := sql;
    after := '';
    if steps = '[]' then
        return;
    end if;
    parts := cdc.split_select(sql);
    outer_text := case when way is null then parts.tail else parts.head end;
    tokens := array(select one.token from cdc.scan(outer_text) as one order by one.ordinal);
    select min(one.ordinal) into opened
    from cdc.scan(outer_text) as one
    where
        one.token = '(' and one.depth = 1
        and (
            way is null
            or one.ordinal > (
                select min(named.ordinal) from cdc.scan(outer_text) as named
                where named.depth = 0 and named.token = quote_ident(way)
            )
        );
    select min(one.ordinal) into closed
    from cdc.scan(outer_text) as one
    where one.token = ')' and one.depth = 1 and one.ordinal > opened;
    deeper := cdc.inner_select(array_to_string(tokens[opened + 1:closed - 1], ''), steps - 0);
    inner_sql := deeper.inner_sql;
    before := case when way is null then parts.head || ' * ' else '' end || array_to_string(tokens[:opened], '') || deeper.before;
    after := deeper.after || case
        when way is null then array_to_string(tokens[closed:], '') else format(e')\n SELECT * FROM %I', way)
    end;
end
$$;
