-- SQL: write down the ignored deletes of a batch, `good`, group by group: a new baseline and an audit know of them.
-- Empty for a fact that ignores none. `tables` are its sources, `deltas` is the function of write_deltas.
create or replace function cdc.write_ignored(compiled jsonb, deltas text, model_key text, tables text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when compiled @? '$.sources[*].keeps_deleted ? (@ == true)' then format(
        'if $1 <> ''add plain'' then' || e'\n'
        'insert into cdc.archived_delete (slot_name, model_name, part, commit_lsn, dimensions, measures)' || e'\n'
        'select $2, %L, (%s)[delta.waltally_source_no], delta.waltally_archived_lsn, array[%s]::text[], array[%s]\n'
        'from %s(array(select change from unnest(good) as change where change.action = ''D'' and change.table_no in (%s)), $4, $5)'
        ' as delta where delta.waltally_archived_lsn is not null;' || e'\nend if;',
        model_key,
        tables,
        (
            select string_agg(cdc.as_text(format('delta.%I', value ->> 'name'), value ->> 'type'), ', ' order by place)
            from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, place)
        ),
        cdc.write_names(compiled -> 'kept', '-delta.%I'),
        deltas,
        (select string_agg(format('($4)[%s]', place), ', ') from jsonb_array_elements(compiled -> 'sources')
        with ordinality as one (value, place) where (value ->> 'keeps_deleted')::boolean)
    ) else '' end
$$;
