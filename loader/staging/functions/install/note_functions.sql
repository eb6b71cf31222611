-- Write down which functions dbt has made for a model, beside those of its former queries: until they are dropped,
-- somebody has to know them.
create or replace function cdc.note_functions(model text, functions text[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    insert into cdc.installed_function (model_name, name) select model, name from unnest(functions) as name
    on conflict do nothing
$$;
