-- The sources of a query as compile_query takes them. `relations` says by schema.table how the query names them.
create or replace function cdc.source_columns(slot text, relations jsonb) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    source record;
begin
    if not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot
            using hint = 'Run `loader setup`, or set LOADER_SLOT to the slot that it made.';
    end if;
    perform cdc.require_one_slot(relations);
    for source in
        select named.value ->> 'table' as name, known.shape
        from jsonb_array_elements(relations) as named
        inner join cdc.slot_position as log on log.slot_name = slot
        cross join cdc.source_shape(log, named.value ->> 'table') as known (shape)
        where known.shape is null or known.shape -> 'columns' = '[]'
    loop
        if source.shape is null then
            raise exception 'the columns of % are not known yet for the slot %', source.name, slot
                using errcode = 'WL003', hint = 'Run `loader setup`, then `dbt build`.';
        end if;
        raise exception '% is no table of the source of slot %', source.name, slot
            using errcode = 'WL003', hint = 'Name a table in the YAML of the source; of a view, one below it.';
    end loop;
    return (
        select jsonb_agg(
            jsonb_build_object('relation', named.value ->> 'relation', 'table', named.value ->> 'table')
            || cdc.source_shape(log, named.value ->> 'table')
            order by named.ordinal
        )
        from jsonb_array_elements(relations) with ordinality as named (value, ordinal)
        inner join cdc.slot_position as log on log.slot_name = slot
    );
end
$$;
