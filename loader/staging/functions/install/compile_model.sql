-- compile_query for a model that may be registered already. A query whose text changed and whose meaning did not, or
-- whose tables got columns that it does not need, is what was registered: its rows stay. Meaning is what PostgreSQL
-- makes of the former and the new text over the columns that were there at the registration, on the same server. A
-- column that was only made longer is the same.
create or replace function cdc.compile_model(slot text, model text, query text, sources jsonb, options jsonb)
returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    registered record;
    -- The columns that were registered, under the names that the query has for the tables now.
    known jsonb;
begin
    select registered_model.declaration, registered_model.reading into registered from cdc.registered_reading(slot, model) as registered_model;
    if registered.reading is not null then
        known := (
            select jsonb_agg(source.value || jsonb_build_object('columns', (
                select coalesce(jsonb_agg(own.value order by own.ordinal), '[]')
                from jsonb_array_elements(former.value -> 'columns') with ordinality as own (value, ordinal)
                where exists (
                    select from jsonb_array_elements(source.value -> 'columns') as present
                    where cdc.without_widening(present.value) @> cdc.without_widening(own.value - 'number')
                )
            )))
            from jsonb_array_elements(sources) as source
            inner join jsonb_array_elements(registered.reading -> 'sources') as former
                on former.value ->> 'table' = source.value ->> 'table'
        );
        begin
            if cdc.compile_query(query, known, options)
                = cdc.compile_query(
                    registered.reading ->> 'text', registered.reading -> 'sources', registered.reading -> 'options'
                )
            then
                return registered.declaration;
            end if;
        exception
            -- It is another query then, which may itself be refused.
            when others then null;
        end;
    end if;
    return cdc.compile_query(query, sources, options);
end
$$;
