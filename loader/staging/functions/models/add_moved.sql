-- Give the changes that a Spark job has read to a model's routine, and forget them. Return the newest that could not be
-- counted.
create or replace function cdc.add_moved(plan cdc.model_plan, batch cdc.computed_batch) returns pg_lsn
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    rejected_lsn pg_lsn;
    found_count bigint;
    one_attempt bigint;
    changes cdc.change[];
begin
    -- The job numbers sources and values as the model does, not as its reader.
    select places.table_nos, places.places into plan.table_nos, plan.places
    from cdc.own_places(plan.declaration) as places;
    -- Others may write rows of the same model beside this: each statement looks for its own alone.
    select count(*) into found_count
    from cdc.computed_change as computed
    where
        computed.slot_name = plan.slot_name
        and computed.model_name = plan.model_name
        and computed.batch = add_moved.batch.id
        and computed.attempt = any (add_moved.batch.attempts);
    if found_count is distinct from add_moved.batch.row_count then
        raise exception 'what Spark has read is gone, or another job reads the same' using errcode = 'WL001';
    end if;
    -- A task has written a slice at a time. First every TRUNCATE: what came before them is left out of the slices.
    foreach one_attempt in array null::bigint || add_moved.batch.attempts loop
        select array_agg(row(
            computed.source_no, computed.action, '0/0'::pg_lsn + computed.commit_lsn, null, computed.is_cancelled,
            computed.problem, computed.old_values, computed.new_values, computed.change_count,
            '0/0'::pg_lsn + computed.last_lsn, computed.missing
        )::cdc.change)
        into changes
        from cdc.computed_change as computed
        where
            computed.slot_name = plan.slot_name
            and computed.model_name = plan.model_name
            and computed.batch = add_moved.batch.id
            and case
                when one_attempt is null then computed.action = 'T' and computed.attempt = any (add_moved.batch.attempts)
                else computed.action is distinct from 'T' and computed.attempt = one_attempt
            end;
        continue when changes is null;
        result := cdc.run_step(plan, case plan.step when 'rebuild' then 'refill' else 'add' end, changes);
        rejected_lsn := greatest(rejected_lsn, result.rejected_lsn);
    end loop;
    delete from cdc.computed_change as computed
    where computed.slot_name = plan.slot_name and computed.model_name = plan.model_name;
    return rejected_lsn;
end
$$;
