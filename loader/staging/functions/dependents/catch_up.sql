-- The last step of a fill, under the locks of the inputs: add what was queued meanwhile and its statement did not see.
create or replace function cdc.catch_up(model text, routine text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    target constant record := cdc.find_installed(
        routine, '(text, text, anyarray, anyarray, anycompatiblearray)', array['anycompatiblearray', 'anycompatiblearray']
    );
begin
    execute format('select from %s(cdc.unless_replaced($1, $3, $4), null, null::text[], null, $2)', target.name)
    using 'catch up', array(
        select queued.change from cdc.queued_change as queued
        where
            queued.relation = model
            and not pg_visible_in_snapshot(queued.xid, nullif(current_setting('waltally.snapshot', true), '')::pg_snapshot)
    ), target.oid, target.version;
    delete from cdc.queued_change as queued where queued.relation = model;
end
$$;
