-- Bring models from their positions to to_lsn in a subtransaction, and return which succeeded: where one fails they
-- are tried again apart, so that it is left behind alone. `batch` are the changes in between, for this step of the
-- routines, where the caller has read them already; or Spark has `computed` what they add. An error is written
-- down. A lock that somebody holds is tried again each second, anything else ever more seldom, so that it does not
-- slow the other models.
create or replace function cdc.try_models(
    plans cdc.model_plan[], to_lsn pg_lsn, step text, batch cdc.change[], slice_size bigint,
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
    foreach plan in array plans loop
        names := names || plan.model_name;
        if plan.step = 'add' and cdc.is_truncated_with_others(plan, to_lsn) then
            update cdc.installed_model as stored
            set is_refresh_asked = true
            where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
            continue;
        elsif plan.step = 'rebuild' then
            perform cdc.start_rebuild(plan, to_lsn);
        end if;
        if step is not null then
            result := cdc.run_step(plan, step, batch);
            plan.rejected_lsn := result.rejected_lsn;
            plan.left_out := cdc.add_left_out(plan.left_out, result.left_out);
        elsif computed.id is not null then
            perform cdc.merge_computed(plan, to_lsn, computed);
            plan.rejected_lsn := computed.rejected_lsn;
            plan.left_out := cdc.add_left_out(plan.left_out, computed.left_out);
        else
            select done.rejected_lsn, done.left_out into plan.rejected_lsn, plan.left_out
            from cdc.step_through(
                plan, to_lsn, case plan.step when 'rebuild' then 'refill' else 'add' end, slice_size
            ) as done;
        end if;
        moved := moved || plan;
    end loop;
    perform cdc.end_models(moved, to_lsn, slice_size);
    return names;
exception
    when others then
        get stacked diagnostics
            code = returned_sqlstate, message = message_text, hint = pg_exception_hint;
        names := '{}';
        if cardinality(plans) > 1 then
            foreach plan in array plans loop
                names := names || cdc.try_models(array[plan], to_lsn, step, batch, slice_size);
            end loop;
            return names;
        elsif code = 'WL001' then
            return names;
        end if;
        plan := plans[1];
        update cdc.installed_model as stored
        set
            error = message,
            is_locked = code = '55P03',
            remedy = coalesce(
                nullif(hint, ''),
                case code
                    when '55P03' then 'nothing; it is tried again'
                    when '22003' then format(
                        'declare a wider type for the measure, then `loader setup`, '
                        '`spark-submit spark/seed.py --fact %s`, `dbt build`',
                        plan.fact_name
                    )
                    else case plan.engine
                        when 'spark' then '`dbt build` makes what is missing; then `spark-submit spark/apply.py`'
                        else '`dbt build` makes what is missing and tries it at once'
                    end
                end
            ),
            failed_at = clock_timestamp(),
            failures = case when code = '55P03' then 0 else failures + 1 end,
            retry_at = clock_timestamp() + make_interval(
                secs => case when code = '55P03' then 1 else least(60, 2 ^ least(failures, 10)) end
            )
        where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
        return names;
end
$$;
