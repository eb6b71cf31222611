-- Forget where a model was before, because its project's target has another relation for it now, or its table is gone:
-- the new one takes its place among what is followed. Ignored deletes that are in the baseline go with it; those after
-- it are written down again where it applies them. Returns since when the former is known, null where there is none.
create or replace function cdc.move_model(slot text, model text, name text, project text, target_schema text)
returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    former record;
    since timestamptz;
begin
    for former in
        select own.relation, own.added_at from cdc.installed_model as own
        where
            own.slot_name = slot
            and own.model_name = name
            and own.relation <> model
            and (
                (own.project_name, own.target_schema) = (project, move_model.target_schema)
                or not cdc.is_table(own.relation)
            )
    loop
        update cdc.ignored_delete as own set relation = model
        where
            own.slot_name = slot
            and own.relation = former.relation
            and own.commit_lsn < (
                select baseline.snapshot_lsn from cdc.baseline
                where baseline.slot_name = slot and baseline.model_name = name
            );
        perform cdc.forget_relation(slot, former.relation);
        since := least(since, former.added_at);
    end loop;
    return since;
end
$$;
