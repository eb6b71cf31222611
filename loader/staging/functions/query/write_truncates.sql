-- SQL: take away what a source that was truncated in the batch had added, and forget its archived deletes. Of several
-- sources the parts of all but the last are kept; what the last one added is the rest.
create or replace function cdc.write_truncates(compiled jsonb, relation text, model_key text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(cdc.fill(
$template$if exists (
            select from unnest($3) as change
            where change.table_no = ($4)[{place}] and change.action = 'T' and change.problem is null
        ) then
            is_reset := true;
            if $1 = 'add' then
                {take_away}
            end if;
            {forget}
        end if;
        $template$,
        jsonb_build_object(
            'place', source.place,
            'take_away', case
                when is_total then cdc.write_merge(compiled, relation, own.added, 'false')
                when source_count = 1 then format('delete from %s;', relation)
                else cdc.write_merge(compiled, relation, own.added, 'false')
                    || format('delete from %s where ctid = any (waltally_emptied);', relation)
            end,
            'forget', case when (source.value ->> 'keeps_deleted')::boolean then format(
                'delete from cdc.archived_delete as old where old.slot_name = $2 and old.model_name = %L and old.part = %L;',
                model_key, source.value ->> 'table'
            ) else '' end
        )
    ), '' order by source.place)
    from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, place)
    cross join (
        select jsonb_array_length(compiled -> 'sources') as source_count, (compiled ->> 'is_total')::boolean as is_total
    ) as model
    cross join lateral (
        select format(
            'select %s as waltally_source_no, %s from %s as stored',
            source.place,
            concat_ws(', ', nullif(cdc.write_names(compiled -> 'keys', '%I'), ''), string_agg(
                case when source.place < source_count
                    then format('-%I as %I', cdc.part_name(source.place, kept.value ->> 'name'), kept.value ->> 'name')
                    else format('%s - coalesce(%2$I, 0) as %2$I', cdc.add_parts(source_count, kept.value ->> 'name'), kept.value ->> 'name')
                end, ', ' order by kept.place
            )),
            relation
        ) as added
        from jsonb_array_elements(compiled -> 'kept') with ordinality as kept (value, place)
    ) as own
$$;
