-- The path of the query to which the steps of unwrap_query lead.
create or replace function cdc.find_top(nodes cdc.tree_node[], steps jsonb) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    top_path text := 'q';
    step jsonb;
begin
    for step in select value from jsonb_array_elements(steps) loop
        select coalesce(named.path || '.ctequery', top_path || '.rtable.' || (
            select reference.fields ->> 'rtindex' from unnest(nodes) as reference
            where reference.path = top_path || '.jointree.fromlist.1'
        ) || '.subquery')
        into top_path
        from (select) as once
        left join unnest(nodes) as named
            on named.type = 'COMMONTABLEEXPR' and named.fields ->> 'ctename' = step ->> 'cte' and named.parent = any (
                select unnest(own.queries) from unnest(nodes) as own where own.path = top_path
            );
    end loop;
    return top_path;
end
$$;
