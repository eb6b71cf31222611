-- The columns of a model's table in their order. kind: id, key, state, part of a state column, or expression. Of a sum
-- counted_by is the column that counts its values. exact is a type with its length.
create or replace function cdc.list_columns(compiled jsonb)
returns table (
    name text, type text, exact text, kind text, expression text, counted_by text, is_shown boolean, ordinal bigint
)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with columns as (
        select value ->> 'name' as name, value ->> 'type' as type, value ->> 'exact' as exact, 'key' as kind, null as expression, null as counted_by
        from jsonb_array_elements(compiled -> 'keys')
        union all
        select value ->> 'name', value ->> 'type', value ->> 'exact', 'state', null, value ->> 'counted_by'
        from jsonb_array_elements(compiled -> 'state_columns')
        union all
        select value ->> 'name', value ->> 'type', value ->> 'exact', 'expression', value ->> 'expression', null
        from jsonb_array_elements(compiled -> 'expression_columns')
        union all
        select part.name, part.type, null, 'part', null, null
        from cdc.part_columns(compiled) as part
        union all
        select compiled ->> 'surrogate_key', 'uuid', null, 'id', null, null
        where compiled ? 'surrogate_key'
    )

    select
        columns.name,
        columns.type,
        columns.exact,
        columns.kind,
        columns.expression,
        columns.counted_by,
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
