-- Forget what keeps a model's changes, and return whether there was any.
create or replace function cdc.forget_changes(model text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from cdc.to_fill as asked using cdc.dependent_model as own
    where asked.relation = model and own.relation = model and own.declaration ->> 'kind' = 'changes';
    delete from cdc.dependent_model as own where own.relation = model and own.declaration ->> 'kind' = 'changes';
    return found;
end
$$;

revoke execute on function cdc.forget_changes(text) from public;
