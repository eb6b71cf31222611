-- Read a model's changes up to to_lsn in parts of chunk_size, and give each part to a step of its routine.
create or replace function cdc.step_through(
    plan cdc.model_plan, to_lsn pg_lsn, step text, chunk_size bigint,
    out rejected_lsn pg_lsn, out lost_lsn pg_lsn
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    changes cdc.change[];
    first_lsn pg_lsn := plan.from_lsn;
    first_ordinal bigint := 0;
    end_lsn pg_lsn;
    end_ordinal bigint;
    is_last boolean := false;
begin
    while not is_last loop
        select * into end_lsn, end_ordinal from cdc.part_end(plan.slot_name, first_lsn, first_ordinal, to_lsn, chunk_size);
        is_last := end_lsn is null;
        if is_last then
            end_lsn := to_lsn;
            end_ordinal := 0;
        end if;
        changes := cdc.read_changes(
            plan.slot_name, plan.from_lsn, to_lsn, first_lsn, first_ordinal, end_lsn, end_ordinal, step = 'list'
        );
        -- Whoever installs a model may replace the reader, and notes the new ordinals of all others in the same
        -- transaction: what a newer reader gives does not fit the plan's ordinals.
        perform cdc.require_plan(plan);
        result := cdc.run_step(plan, step, changes);
        rejected_lsn := greatest(rejected_lsn, result.rejected_lsn);
        lost_lsn := greatest(lost_lsn, result.lost_lsn);
        first_lsn := end_lsn;
        first_ordinal := end_ordinal;
    end loop;
end
$$;
