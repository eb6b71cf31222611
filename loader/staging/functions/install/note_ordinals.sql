-- Note where the models of a slot find their values in what its reader gives now. A model whose ordinals stay is
-- not touched: an apply that is under way would begin again.
create or replace function cdc.note_ordinals(slot text, gives jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    update cdc.installed_model as stored
    set
        table_nos = own.table_nos,
        ordinals = own.ordinals,
        former_table_nos = own.former_table_nos,
        former_ordinals = own.former_ordinals
    from (
        select installed.relation, located.*, former.table_nos as former_table_nos, former.ordinals as former_ordinals
        from cdc.installed_model as installed
        cross join lateral cdc.find_ordinals(installed.needs, gives) as located
        cross join lateral cdc.find_ordinals(installed.former -> 'needs', gives) as former
        where installed.slot_name = slot
    ) as own
    where
        stored.slot_name = slot
        and stored.relation = own.relation
        and (stored.table_nos, stored.ordinals, stored.former_table_nos, stored.former_ordinals)
        is distinct from (own.table_nos, own.ordinals, own.former_table_nos, own.former_ordinals);
end
$$;
