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
        select upper.relation from cdc.downstream_model as upper
        where
            upper.project = note_project.project
            and upper.declaration ->> 'kind' <> 'changes'
            and exists (select from unnest(schemas) as place where starts_with(upper.relation, place || '.'))
            and upper.is_unbuilt = (upper.relation = any (models))
        for update skip locked
    )

    update cdc.downstream_model as upper set is_unbuilt = not upper.is_unbuilt from unnoted
    where upper.relation = unnoted.relation;
$$;

revoke execute on function cdc.note_project(text, text[], text[]) from public;
