-- Write down the time-zone data, if a model relies on them: reading them takes a fifth of a second, too long for each
-- look at model_state. A session goes on with the zones that it has read, so whoever evaluates asks when it begins.
create or replace function cdc.note_zones() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select from cdc.registered_model where declaration -> 'relies_on' ? 'time-zone data'
        union all
        select from cdc.downstream_model where declaration -> 'relies_on' ? 'time-zone data'
    ) then
        update cdc.slot_position as log set zone_data = own.zone_data
        from cdc.zone_data() as own (zone_data)
        where log.zone_data is distinct from own.zone_data;
    end if;
end
$$;
