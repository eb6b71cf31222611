-- Of an installed model that is to have another declaration, the query by which its rows were counted, while it has a
-- routine: that one goes on until the new one has its baseline. Null where there is none.
create or replace function cdc.former_query(installed cdc.installed_model, declaration jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    built_by constant jsonb := (
        select mark.declaration from cdc.model_watermark as mark
        where mark.slot_name = installed.slot_name and mark.relation = installed.relation
    );
begin
    return case
        when not built_by ? 'query' or built_by = declaration then null
        when built_by = installed.declaration
            then jsonb_build_object('declaration', built_by, 'routine', installed.routine, 'needs', installed.needs)
        when built_by = installed.former -> 'declaration' then installed.former
    end;
end
$$;
