-- The rows of groups of which a key is null, as texts: the unique index finds null if the condition says so. `groups`
-- are the texts of their keys: [["web", null], ...].
create or replace function cdc.find_null_groups(relation text, names text[], types text[], groups jsonb)
returns setof text
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
    alike record;
begin
    for alike in
        select own.condition, jsonb_agg(given.value) as groups
        from jsonb_array_elements(groups) as given
        cross join lateral (
            select string_agg(
                case key.value when 'null' then format('stored.%I is null', names[key.ordinal])
                else format('stored.%I %s (given.value ->> %s)::%s', names[key.ordinal], cdc.equals(types[key.ordinal]), key.ordinal - 1, types[key.ordinal]) end,
                ' and ' order by key.ordinal
            ) as condition
            from jsonb_array_elements(given.value) with ordinality as key (value, ordinal)
        ) as own
        group by own.condition
    loop
        return query execute format(
            'select (stored.*)::text from jsonb_array_elements($1) as given inner join %s as stored on %s', relation, alike.condition
        ) using alike.groups;
    end loop;
end
$$;
