-- An input of a model over models that has not the columns any more that it was compiled for; null where none.
create or replace function cdc.changed_input(model text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(input.value ->> 'model')
        from cdc.downstream_model as own
        cross join jsonb_array_elements(own.declaration -> 'inputs') as input
        cross join jsonb_array_elements(input.value -> 'columns') as needed
        -- Asked column by column: a join would read the whole catalog.
        where own.model_name = model and (
            select case when a.attnotnull or not needed.value ? 'is_never_null' then a.atttypid end
            from pg_attribute as a
            where
                a.attrelid = to_regclass(format('%I.%I', input.value ->> 'schema', input.value ->> 'name'))
                and a.attname = needed.value ->> 'name' and not a.attisdropped
        ) is distinct from to_regtype(needed.value ->> 'type')
    );
end
$$;
