-- Give columns of stubs that were renamed in the table another one of their names; see same_rows.
create or replace function cdc.rename_stubs(sources jsonb, before text, after text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    renamed record;
begin
    for renamed in
        select source.ordinal, one.value ->> before as former, one.value ->> after as name
        from jsonb_array_elements(sources) with ordinality as source (value, ordinal)
        cross join jsonb_array_elements(source.value -> 'columns') as one (value)
        where one.value ? 'renamed'
    loop
        execute format('alter table pg_temp.waltally_source_%s rename %I to %I', renamed.ordinal, renamed.former, renamed.name);
    end loop;
end
$$;
