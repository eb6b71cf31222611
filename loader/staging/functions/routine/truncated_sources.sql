-- The sources of a model that are truncated in a batch, by their ordinals in `table_nos`.
create or replace function cdc.truncated_sources(changes cdc.change[], table_nos integer[]) returns integer[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return array(
        select distinct array_position(table_nos, change.table_no)
        from unnest(changes) as change
        where change.action = 'T' and change.problem is null and change.table_no = any (table_nos)
    );
end
$$;
