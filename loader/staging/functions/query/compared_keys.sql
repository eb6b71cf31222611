-- SQL of write_comparison for what tells a model's groups apart: as the model has it, as the source gives it, as a
-- text, and the grouping by it. Rows are told apart by every column, and compared by their texts.
create or replace function cdc.compared_keys(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'own_keys', coalesce(string_agg(format('%I::%s as key_%s, ', name, typed, place), '' order by place), ''),
        'given_keys', coalesce(string_agg(
            format('given.dimensions[%s]::%s%s, ', place, case when type = 'bpchar' then 'bpchar::' else '' end, typed),
            '' order by place
        ), ''),
        'key_texts', coalesce(string_agg(format('key_%s::text', place), ', ' order by place), ''),
        'grouped', coalesce('group by ' || string_agg(format('key_%s', place), ', ' order by place), '')
    )
    from (
        select
            one.name,
            one.type,
            case when compiled ->> 'kind' = 'rows' or one.type = 'text' then 'text collate "C"' else one.type end as typed,
            row_number() over (order by one.place) as place
        from cdc.list_columns(compiled) as one
        where one.kind = 'key' or compiled ->> 'kind' = 'rows'
    ) as key
$$;
