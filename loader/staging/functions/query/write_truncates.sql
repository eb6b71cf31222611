-- SQL: take away what a source that was truncated in the batch had added, and forget its archived deletes. Of several
-- sources the parts of all but the last are kept; what the last one added is the rest.
create or replace function cdc.write_truncates(compiled jsonb, relation text, model_key text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    source_count constant integer := jsonb_array_length(compiled -> 'sources');
    written text := '';
    source record;
    taken text;
begin
    for source in
        select one.place, one.value from jsonb_array_elements(compiled -> 'sources') with ordinality as one (value, place)
    loop
        if source_count = 1 and not (compiled ->> 'is_total')::boolean then
            taken := format('delete from %s;', relation);
        else
            select format('update %s set %s;', relation, string_agg(
                case
                    when source.place < source_count then format(
                        '%1$I = %2$s, %3$I = 0', kept.value ->> 'name', case
                            when kept.value ? 'counted_by' then format(
                                'case when %2$I - %4$I > 0 then %1$I - %3$I end', kept.value ->> 'name', kept.value ->> 'counted_by',
                                'waltally_' || source.place || '_' || (kept.value ->> 'name'),
                                'waltally_' || source.place || '_' || (kept.value ->> 'counted_by')
                            )
                            else format('%1$I - %2$I', kept.value ->> 'name', 'waltally_' || source.place || '_' || (kept.value ->> 'name'))
                        end, 'waltally_' || source.place || '_' || (kept.value ->> 'name')
                    )
                    else format('%I = %s', kept.value ->> 'name', case
                        when kept.value ? 'counted_by' then format(
                            'case when %s > 0 then %s end',
                            cdc.add_parts(source_count, kept.value ->> 'counted_by'), cdc.add_parts(source_count, kept.value ->> 'name')
                        )
                        else cdc.add_parts(source_count, kept.value ->> 'name')
                    end)
                end, ', ' order by kept.place
            )) || case when (compiled ->> 'is_total')::boolean then ''
                else format(e'\n            delete from %s where %I = 0;', relation, compiled ->> 'rows') end
            into taken
            from jsonb_array_elements(compiled -> 'kept') with ordinality as kept (value, place);
        end if;
        written := written || format(
            e'if exists (select from unnest($3) as change where change.table_no = ($4)[%s] and change.action = ''T'' and change.problem is null) then\n'
            '            is_reset := true;\n            if $1 = ''add'' then\n                %s\n            end if;\n',
            source.place, taken
        );
        if (source.value ->> 'keeps_deleted')::boolean then
            written := written || format(
                '            delete from cdc.archived_delete as old where old.slot_name = $2 and old.model_name = %L and old.part = %L;' || e'\n',
                model_key, source.value ->> 'table'
            );
        end if;
        written := written || e'        end if;\n        ';
    end loop;
    return written;
end
$$;
