-- Give what a Spark job has computed to a model's routine, write down the archived deletes, and forget both.
create or replace function cdc.merge_computed(plan cdc.model_plan, to_lsn pg_lsn, batch cdc.computed_batch) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    truncated text[];
    changes cdc.change[];
    found_count bigint;
begin
    -- Others may write rows of the same model beside this: each statement looks for its own alone.
    select count(*) into found_count
    from cdc.computed_group as computed
    where
        computed.slot_name = plan.slot_name
        and computed.model_name = plan.model_name
        and computed.batch = batch.id
        and computed.attempt = any (batch.attempts);
    if found_count is distinct from batch.row_count then
        raise exception 'what Spark computed is gone, or another job computes the same' using errcode = 'WL001';
    end if;

    truncated := cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn);
    if truncated is not null then
        delete from cdc.archived_delete as old
        where
            old.slot_name = plan.slot_name
            and old.model_name = plan.model_name
            and old.part in (
                select declared.value ->> 'name'
                from jsonb_array_elements(plan.declaration -> 'tables') as declared (value)
                where (declared.value ->> 'schema') || '.' || (declared.value ->> 'table') = any (truncated)
            );
        if plan.step = 'add' then
            perform cdc.run_step(plan, 'merge', null, truncated);
        end if;
    end if;
    for changes in
        select array_agg((null, null, null, null, null, null, one.sums, one.dimensions, null, null, null)::cdc.change)
        from (
            select
                computed.sums,
                computed.dimensions,
                (row_number() over () - 1) / cdc.slice_size() as place
            from cdc.computed_group as computed
            where
                computed.slot_name = plan.slot_name
                and computed.model_name = plan.model_name
                and computed.batch = batch.id
                and computed.attempt = any (batch.attempts)
                and computed.part is null
        ) as one
        group by one.place
    loop
        perform cdc.run_step(plan, 'merge', changes);
    end loop;

    insert into cdc.archived_delete (slot_name, model_name, part, commit_lsn, dimensions, measures)
    select
        plan.slot_name,
        plan.model_name,
        computed.part,
        '0/0'::pg_lsn + computed.commit_lsn,
        computed.dimensions,
        computed.sums::numeric[]
    from cdc.computed_group as computed
    where
        computed.slot_name = plan.slot_name
        and computed.model_name = plan.model_name
        and computed.batch = batch.id
        and computed.attempt = any (batch.attempts)
        and computed.part is not null;
    delete from cdc.computed_group as computed
    where computed.slot_name = plan.slot_name and computed.model_name = plan.model_name;
end
$$;
