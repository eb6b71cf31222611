-- Write down what dbt has made for a model.
create or replace function cdc.note_objects(model text, functions text[], columns text[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    delete from cdc.installed_object as former where former.model_name = model;
    insert into cdc.installed_object (model_name, kind, name)
    select model, made.kind, made.name
    from (
        select 'function' as kind, name from unnest(functions) as name
        union all
        select 'column', name from unnest(columns) as name
    ) as made
$$;
