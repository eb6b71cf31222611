-- Rows of changes that a query cannot take, as count_moved gives them: by source and PostgreSQL's message, with an
-- example.
create or replace function cdc.count_bad_rows(compiled jsonb, bad cdc.change[], messages text[], table_nos integer[])
returns table (part text, dimensions text[], row_count bigint, sums text[], reason text, example text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        compiled #>> array['sources', (rejected.source_no - 1)::text, 'table'],
        '{}'::text[],
        sum(case rejected.action when 'I' then rejected.change_count else -rejected.change_count end)::bigint,
        '{}'::text[],
        rejected.message,
        min(rejected.example)
    from (
        select
            array_position(table_nos, change.table_no) as source_no, change.action, change.change_count,
            messages[ordinality] as message,
            (
                select jsonb_object_agg(name.value ->> 'name', left(image.value, 100))::text
                from jsonb_path_query_array(
                    compiled, '$.sources[$no].columns[*] ? (@.is_needed == true)',
                    jsonb_build_object('no', array_position(table_nos, change.table_no) - 1)
                ) as needed (list)
                cross join lateral jsonb_array_elements(needed.list) with ordinality as name (value, place)
                cross join lateral (select (coalesce(change.new_values, change.old_values))[name.place] as value) as image
            ) as example
        from unnest(bad) with ordinality as change
    ) as rejected
    group by 1, 5
$$;
