-- Note which of the models that a dbt project has installed in these schemas it has no more: `models` are its models
-- over sources and over models, as schema.name. Called beside other installs, so a row that is locked is left to them.
create or replace function cdc.note_project(project text, schemas text[], models text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with unnoted as (
        select own.slot_name, own.relation from cdc.installed_model as own
        where
            own.project_name = project and own.relation_schema = any (schemas)
            and own.is_unbuilt = (own.relation = any (models))
        for update skip locked
    )

    update cdc.installed_model as own set is_unbuilt = not own.is_unbuilt from unnoted
    where own.slot_name = unnoted.slot_name and own.relation = unnoted.relation;

    with unnoted as (
        select dependent.relation from cdc.dependent_model as dependent
        where
            dependent.project = note_project.project
            and dependent.declaration ->> 'kind' <> 'changes'
            and exists (select from unnest(schemas) as schema_name where starts_with(dependent.relation, schema_name || '.'))
            and dependent.is_unbuilt = (dependent.relation = any (models))
        for update skip locked
    )

    update cdc.dependent_model as dependent set is_unbuilt = not dependent.is_unbuilt from unnoted
    where dependent.relation = unnoted.relation;
$$;

revoke execute on function cdc.note_project(text, text[], text[]) from public;
