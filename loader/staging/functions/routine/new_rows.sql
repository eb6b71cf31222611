-- Of the rows that find_bad_images has found the new ones: an old row that cannot be taken was never counted.
create or replace function cdc.new_rows(bad cdc.change[]) returns cdc.change[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return array(select change from unnest(bad) as change where change.action = 'I');
end
$$;
