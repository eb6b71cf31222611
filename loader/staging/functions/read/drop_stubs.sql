-- Undo stub_sources.
create or replace function cdc.drop_stubs(sources jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    stub text;
begin
    for stub in
        select format('table pg_temp.waltally_source_%s', ordinal)
        from jsonb_array_elements(sources) with ordinality as one (value, ordinal)
        union all
        select format('type pg_temp.%I', t.typname) from pg_type as t
        where t.typnamespace = pg_my_temp_schema() and t.typtype = 'e' and t.typname ~ '^waltally_enum_'
        -- The tables first.
        order by 1
    loop
        execute 'drop ' || stub;
    end loop;
end
$$;
