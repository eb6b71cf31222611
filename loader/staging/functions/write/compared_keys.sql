-- SQL of write_comparison for what tells a model's groups apart: as the model has it, as the source gives it, as a
-- text, and the grouping by it. Rows are told apart by every column, and compared by their texts.
create or replace function cdc.compared_keys(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'own_keys', coalesce(string_agg(format('%s as key_%s, ', own, ordinal), '' order by ordinal), ''),
        'given_keys', coalesce(string_agg(format('given.dimensions[%s]::%s, ', ordinal, typed), '' order by ordinal), ''),
        'key_texts', coalesce(string_agg(cdc.as_text('key_' || ordinal, type), ', ' order by ordinal), ''),
        'grouped', coalesce('group by ' || string_agg(format('key_%s', ordinal), ', ' order by ordinal), '')
    )
    from (
        select
            one.name,
            case when compiled ->> 'kind' = 'rows' then 'text' else one.type end as type,
            case when compiled ->> 'kind' = 'rows' then 'text collate "C"' else cdc.typed(compiled, one.name, one.type) end as typed,
            case when compiled ->> 'kind' = 'rows' then cdc.as_text(quote_ident(one.name), one.type) || ' collate "C"' else quote_ident(one.name) end as own,
            row_number() over (order by one.ordinal) as ordinal
        from cdc.list_columns(compiled) as one
        where one.kind = 'key' or compiled ->> 'kind' = 'rows'
    ) as key
$$;
