-- The names that a column had before, as list_needs takes them, with its last one where it has another one now; null
-- for none. From the end of the source's log on it has the new one alone, where that is known.
create or replace function cdc.rename_note(
    slot text, declaration jsonb, source_table text, name text, is_renamed boolean
) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when is_renamed then jsonb_strip_nulls(jsonb_build_object(
            'former', coalesce(before.note -> 'former', '[]') || to_jsonb(name),
            'until', (select pg_current_wal_insert_lsn() from cdc.slot_position as log where log.slot_name = slot and cdc.is_own(log))
        ))
        else before.note
    end
    from (
        select (
            select own.value -> 'renamed'
            from jsonb_array_elements(declaration -> 'sources') as source (value)
            cross join jsonb_array_elements(source.value -> 'columns') as own (value)
            where source.value ->> 'table' = source_table and own.value ->> 'name' = name
        ) as note
    ) as before
$$;
