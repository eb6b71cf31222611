-- Whether a table is truncated of which a measure adds up the rows with those of another table. What it
-- had added is not known then, so the model has to start from its baseline again.
create or replace function cdc.is_truncated_with_others(plan cdc.model_plan, to_lsn pg_lsn) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    mixed text[];
begin
    if not plan.declaration @? '$.measures[*].of[1]' then
        return false;
    end if;
    select array_agg((part ->> 'schema') || '.' || (part ->> 'table')) into mixed
    from jsonb_array_elements(plan.declaration -> 'tables') as part
    cross join jsonb_array_elements(plan.declaration -> 'measures') as measure
    where measure @? '$.of[1]' and measure -> 'of' ? (part ->> 'name');
    return coalesce(
        mixed && cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn), false
    );
end
$$;
