-- The columns of a model's table in their order. kind: id, key, kept, part of what is kept, or derived.
create or replace function cdc.list_columns(compiled jsonb)
returns table (name text, type text, kind text, expression text, is_shown boolean, place bigint)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with columns as (
        select value ->> 'name' as name, value ->> 'type' as type, 'key' as kind, null as expression
        from jsonb_array_elements(compiled -> 'keys')
        union all
        select value ->> 'name', value ->> 'type', 'kept', null
        from jsonb_array_elements(compiled -> 'kept')
        union all
        select value ->> 'name', value ->> 'type', 'derived', value ->> 'expression'
        from jsonb_array_elements(compiled -> 'derived')
        union all
        select part.name, part.type, 'part', null
        from cdc.part_columns(compiled) as part
        union all
        select compiled ->> 'surrogate_key', 'uuid', 'id', null
        where compiled ? 'surrogate_key'
    )

    select
        columns.name,
        columns.type,
        columns.kind,
        columns.expression,
        columns.kind = 'id' or compiled -> 'names' ? columns.name,
        row_number() over (
            order by
                columns.kind <> 'id',
                array_position(array(select jsonb_array_elements_text(compiled -> 'names')), columns.name) nulls last,
                columns.kind = 'part',
                columns.name collate "C"
        )
    from columns
$$;
