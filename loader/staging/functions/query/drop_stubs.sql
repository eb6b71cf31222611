-- Undo stub_sources.
create or replace function cdc.drop_stubs(sources jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    name text;
begin
    for name in
        select format('pg_temp.waltally_source_%s', place) from jsonb_array_elements(sources) with ordinality as one (value, place)
    loop
        execute format('drop table %s', name);
    end loop;
    for name in
        select format('pg_temp.%I', t.typname) from pg_type as t
        where t.typnamespace = pg_my_temp_schema() and t.typtype = 'e' and t.typname ~ '^waltally_enum_'
    loop
        execute format('drop type %s', name);
    end loop;
end
$$;
