-- Bring models from their positions to to_lsn in a subtransaction, and return which succeeded: where one fails they
-- are tried again apart, so that it is left behind alone. `batch` are the changes in between, for `step` of the
-- routines, where the caller has read them already; with a null step each model reads by itself, or Spark has
-- `computed` what they add. An error is written down.
create or replace function cdc.try_models(
    plans cdc.model_plan[], to_lsn pg_lsn, step text, batch cdc.change[], batch_size bigint,
    computed cdc.computed_batch default null
) returns text[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
    moved cdc.model_plan[] := array[]::cdc.model_plan[];
    names text[] := array[]::text[];
    result cdc.outcome;
    code text;
    message text;
    hint text;
begin
    perform cdc.begin_models(plans);
    -- What keeps changes writes it down.
    perform set_config('waltally.position', to_lsn::text, true);
    foreach plan in array plans loop
        if plan.step = 'rebuild' then
            perform cdc.start_rebuild(plan, to_lsn);
        end if;
        if step is not null then
            result := cdc.run_step(plan, step, batch);
            plan.rejected_lsn := result.rejected_lsn;
            plan.lost_lsn := result.lost_lsn;
        elsif computed.id is not null then
            plan.rejected_lsn := cdc.add_moved(plan, computed);
        else
            select done.rejected_lsn, done.lost_lsn
            into plan.rejected_lsn, plan.lost_lsn
            from cdc.step_through(
                plan, to_lsn, case plan.step when 'rebuild' then 'refill' else 'add' end, batch_size
            ) as done;
        end if;
        moved := moved || plan;
    end loop;
    perform cdc.end_models(moved, to_lsn, batch_size);
    return array(select done.relation from unnest(moved) as done);
exception
    when others then
        get stacked diagnostics
            code = returned_sqlstate, message = message_text, hint = pg_exception_hint;
        if cardinality(plans) > 1 then
            -- In one order too: each holds its dependents from then on.
            perform cdc.lock_dependents(array(select planned.relation from unnest(plans) as planned where planned.step = 'add'));
            foreach plan in array plans loop
                names := names || cdc.try_models(array[plan], to_lsn, step, batch, batch_size);
            end loop;
            return names;
        elsif code = 'WL001' then
            -- Another session changes it at this moment: no failure, see begin_models.
            return names;
        end if;
        perform cdc.note_failure(plans[1], code, message, hint);
        return names;
end
$$;
