-- The changes of a batch that a model can take: a batch has changes for other models too, and some that lack a value.
-- `key_nos` are of a model of rows whose table logs the old key alone: an update or a delete has to have that. They are
-- null where old rows are complete.
create or replace function cdc.own_changes(
    changes cdc.change[], table_nos integer[], ordinals integer[], key_nos integer[] default null
) returns cdc.change[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return array(
        select change
        from unnest(changes) as change
        where
            change.table_no = any (table_nos) and not change.is_cancelled and change.problem is null
            and change.action in ('I', 'U', 'D')
            and (change.missing is null or not cdc.lacks(
                change, table_nos, case when key_nos is null or change.action = 'I' then ordinals else array[key_nos] end
            ))
    );
end
$$;
