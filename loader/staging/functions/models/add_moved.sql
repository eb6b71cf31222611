-- Give the changes that a Spark job has read to a model's routine, and forget them. Return the newest that could not be
-- counted.
create or replace function cdc.add_moved(plan cdc.model_plan, batch cdc.computed_batch) returns pg_lsn
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    rejected_lsn pg_lsn;
    found_count bigint;
    part record;
    changes cdc.change[];
begin
    -- The job numbers sources and values as the model does, not as its reader.
    select own.table_nos, own.ordinals into plan.table_nos, plan.ordinals from cdc.own_ordinals(plan.declaration) as own;
    -- Others may write rows of the same model beside this: each statement looks for its own alone.
    select count(*) into found_count
    from cdc.computed_change as computed
    where
        computed.slot_name = plan.slot_name
        and computed.relation = plan.relation
        and computed.batch = add_moved.batch.id
        and computed.attempt = any (add_moved.batch.attempts);
    if found_count is distinct from add_moved.batch.row_count then
        raise exception 'what Spark has read is gone, or another job reads the same' using errcode = 'WL001';
    end if;
    for part in select * from cdc.moved_parts(plan, add_moved.batch)
    loop
        select array_agg(row(
            computed.source_no,
            case
                when part.phase = 'truncates' or part.phase = 'all' or computed.problem is not null or computed.missing is not null
                    then computed.action
                when part.phase = 'new rows' then 'I'
                else 'D'
            end,
            '0/0'::pg_lsn + computed.commit_lsn, null, computed.is_cancelled, computed.problem,
            computed.old_values, computed.new_values, computed.change_count, '0/0'::pg_lsn + computed.last_lsn, computed.missing
        )::cdc.change)
        into changes
        from cdc.computed_change as computed
        where
            computed.slot_name = plan.slot_name
            and computed.relation = plan.relation
            and computed.batch = add_moved.batch.id
            and computed.attempt = any (part.attempts)
            and case part.phase
                when 'truncates' then computed.action = 'T'
                when 'all' then computed.action is distinct from 'T'
                when 'new rows' then computed.action in ('I', 'U') or computed.problem is not null or computed.missing is not null
                else computed.action in ('D', 'U') and computed.problem is null and computed.missing is null
            end;
        continue when changes is null;
        result := cdc.run_step(plan, case plan.step when 'rebuild' then 'refill' else 'add' end, changes);
        rejected_lsn := greatest(rejected_lsn, result.rejected_lsn);
    end loop;
    delete from cdc.computed_change as computed
    where computed.slot_name = plan.slot_name and computed.relation = plan.relation;
    return rejected_lsn;
end
$$;
