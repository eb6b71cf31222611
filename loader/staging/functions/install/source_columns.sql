-- The sources of a query as compile_query takes them. `relations` says by schema.table how the query names them.
create or replace function cdc.source_columns(slot text, relations jsonb) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing text;
begin
    if not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot
            using hint = 'Run `loader setup`, or set LOADER_SLOT to the slot that it made.';
    end if;
    perform cdc.require_one_slot(relations);
    select named.value ->> 'table' into missing
    from jsonb_array_elements(relations) as named
    left join cdc.logged_table as logged
        on
            logged.slot_name = slot
            and logged.table_schema || '.' || logged.table_name = named.value ->> 'table'
            and logged.shape is not null
    where logged.slot_name is null
    limit 1;
    if found then
        raise exception 'the columns of % are not known yet for the slot %', missing, slot
            using errcode = 'WL003', hint = 'Run `loader setup`, then `dbt build`.';
    end if;
    return (
        select jsonb_agg(
            jsonb_build_object(
                'relation', named.value ->> 'relation',
                'table', named.value ->> 'table',
                'schema', logged.table_schema,
                'name', logged.table_name
            ) || logged.shape
            order by named.place
        )
        from jsonb_array_elements(relations) with ordinality as named (value, place)
        inner join cdc.logged_table as logged
            on
                logged.slot_name = slot
                and logged.table_schema || '.' || logged.table_name = named.value ->> 'table'
    );
end
$$;
