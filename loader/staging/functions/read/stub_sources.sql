-- Make an empty temporary table for each source of a query, with its columns in the types that PostgreSQL is to read
-- the query with: an enum as an enum of the same labels, and what is not built in as a type that only becomes text.
-- `is_exact`: types have their lengths.
create or replace function cdc.stub_sources(sources jsonb, is_exact boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    source record;
    labels jsonb;
begin
    for source in
        select one.value, one.ordinal from jsonb_array_elements(sources) with ordinality as one (value, ordinal)
    loop
        for labels in
            select distinct one.value -> 'labels' from jsonb_array_elements(source.value -> 'columns') as one (value)
            where one.value ? 'labels'
        loop
            -- Columns of one enum can be compared and be in one column of a UNION ALL.
            continue when to_regtype(cdc.enum_stub(labels)) is not null;
            execute format(
                'create type %s as enum (%s)', cdc.enum_stub(labels),
                (select string_agg(quote_literal(one.label), ', ' order by one.ordinal)
                from jsonb_array_elements_text(labels) with ordinality as one (label, ordinal))
            );
        end loop;
        execute format(
            'create temporary table waltally_source_%s (%s%s)',
            source.ordinal,
            (
                select string_agg(
                    format('%I %s', one.value ->> 'name', case
                        when one.value ? 'labels'
                            then cdc.enum_stub(one.value -> 'labels') || case one.value ->> 'type' when 'text[]' then '[]' else '' end
                        when one.value ->> 'type' = 'other' then 'cdc.other_value'
                        else coalesce(case when is_exact then one.value ->> 'exact' end, one.value ->> 'type') || coalesce(' collate ' || (one.value ->> 'collation'), '')
                    end),
                    ', ' order by one.ordinal
                )
                from jsonb_array_elements(source.value -> 'columns') with ordinality as one (value, ordinal)
            ),
            -- PostgreSQL takes a table's other columns beside its grouped key. A partitioned table has no file.
            (
                select format(', primary key (%s)) partition by range (%I', string_agg(quote_ident(name), ', '), min(name))
                from jsonb_array_elements_text(source.value -> 'key') as key (name)
                having count(*) > 0
            )
        );
    end loop;
end
$$;
