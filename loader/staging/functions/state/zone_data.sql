-- A digest of the server's time-zone data. It is read as text, too: a source's server has no function of ours.
create or replace function cdc.zone_data() returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    -- Sorted by zone alone: each zone's texts come in the order of its moments.
    select md5(string_agg(zones.moments, ',' order by zones.name collate "C"))
    from (
        select
            zone.name,
            (
                select string_agg((moment at time zone zone.name)::text, ' ')
                from generate_series(
                    '1970-01-01 00:00+00'::timestamptz, '2038-01-01 00:00+00', interval '182 days'
                ) as moment
            ) as moments
        from pg_timezone_names as zone
        -- That folder has each zone once more.
        where not starts_with(zone.name, 'posix/')
    ) as zones
$$;
