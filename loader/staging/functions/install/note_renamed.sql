-- A compiled query whose columns have a note of the names that they had before, as same_rows gives them.
create or replace function cdc.note_renamed(compiled jsonb, renamed jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when coalesce(renamed, '{}') = '{}' then compiled else compiled || jsonb_build_object('sources', (
        select jsonb_agg(source.value || jsonb_build_object('columns', (
            select jsonb_agg(
                own.value || jsonb_strip_nulls(jsonb_build_object('renamed', renamed #> array[source.value ->> 'table', own.value ->> 'name']))
                order by own.ordinal
            )
            from jsonb_array_elements(source.value -> 'columns') with ordinality as own (value, ordinal)
        )) order by source.ordinal)
        from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, ordinal)
    )) end
$$;
