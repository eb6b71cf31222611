-- Whether a model over models needs an index, and none other serves it there.
create or replace function cdc.is_index_needed(index regclass) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select exists (
        select
        from pg_index as i
        cross join cdc.downstream_model as own
        cross join jsonb_array_elements(own.indexes) as needed
        where
            i.indexrelid = index and to_regclass(needed.value ->> 'relation') = i.indrelid and cdc.index_serves(index, needed.value)
            and not exists (
                select from pg_index as other
                where other.indrelid = i.indrelid and other.indexrelid <> index and cdc.index_serves(other.indexrelid, needed.value)
            )
    )
$$;
