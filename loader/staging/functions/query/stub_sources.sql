-- Make an empty temporary table for each source of a query, with its columns in the types that PostgreSQL is to read the
-- query with: an enum as an enum of the same labels, and what is not built in as a type that only becomes text.
create or replace function cdc.stub_sources(sources jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    source record;
    labelled record;
begin
    for source in
        select one.value, one.place from jsonb_array_elements(sources) with ordinality as one (value, place)
    loop
        for labelled in
            select one.value, one.place
            from jsonb_array_elements(source.value -> 'columns') with ordinality as one (value, place)
            where one.value ? 'labels'
        loop
            execute format(
                'create type pg_temp.waltally_enum_%s_%s as enum (%s)',
                source.place,
                labelled.place,
                (select string_agg(quote_literal(label), ', ' order by place)
                from jsonb_array_elements_text(labelled.value -> 'labels') with ordinality as labels (label, place))
            );
        end loop;
        execute format(
            'create temporary table waltally_source_%s (%s)',
            source.place,
            (
                select string_agg(
                    format('%I %s', one.value ->> 'name', case
                        when one.value ? 'labels'
                            then format('pg_temp.waltally_enum_%s_%s', source.place, one.place)
                        when one.value ->> 'type' = 'other' then 'cdc.other_value'
                        else one.value ->> 'type'
                    end),
                    ', ' order by one.place
                )
                from jsonb_array_elements(source.value -> 'columns') with ordinality as one (value, place)
            )
        );
    end loop;
end
$$;
