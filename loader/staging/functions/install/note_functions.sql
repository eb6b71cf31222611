-- Write down which functions dbt has made for a model. Those of before stay noted while they are there: adopt_functions
-- or teardown drops them.
create or replace function cdc.note_functions(model text, functions text[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    delete from cdc.installed_function as former where former.relation = model and to_regprocedure(former.name) is null;
    insert into cdc.installed_function (relation, name) select model, name from unnest(functions) as name
    on conflict do nothing
$$;
