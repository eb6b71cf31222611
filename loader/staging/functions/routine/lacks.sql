-- Whether a change lacks a value that a model needs.
create or replace function cdc.lacks(change cdc.change, table_nos integer[], ordinals integer[]) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select change.missing && array(
        select unnest(ordinals[source_no:source_no][:])
        from array_position(table_nos, change.table_no) as source_no
    )
$$;
