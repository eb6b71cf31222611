-- Note where the models of a slot find their values in what its reader gives now. A model whose places stay is not
-- touched: an apply that is under way would begin again.
create or replace function cdc.place_models(slot text, gives jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    update cdc.installed_model as stored
    set
        table_nos = own.table_nos,
        places = own.places,
        former_table_nos = own.former_table_nos,
        former_places = own.former_places
    from (
        select installed.relation, located.*, former.table_nos as former_table_nos, former.places as former_places
        from cdc.installed_model as installed
        cross join lateral cdc.find_places(installed.needs, gives) as located
        cross join lateral cdc.find_places(installed.former -> 'needs', gives) as former
        where installed.slot_name = slot
    ) as own
    where
        stored.slot_name = slot
        and stored.relation = own.relation
        and (stored.table_nos, stored.places, stored.former_table_nos, stored.former_places)
        is distinct from (own.table_nos, own.places, own.former_table_nos, own.former_places);
end
$$;
