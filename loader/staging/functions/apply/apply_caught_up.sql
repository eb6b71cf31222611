-- Models that follow have caught up if they are at begin_lsn, the newest position of any; the others that follow are
-- left to apply_rest. The caller holds the slot's lock. Bring those that have caught up to the end of the next batch
-- together, `until` at the latest, and say whether more is staged before that. A model that fails is not in
-- `caught_up`; caught_up_lsn is the end of the batch all the same. A batch, what is applied at once, is read whole
-- here, or in parts by step_through.
create or replace function cdc.apply_caught_up(
    slot text, plans cdc.model_plan[], begin_lsn pg_lsn, until pg_lsn,
    out caught_up text[], out caught_up_lsn pg_lsn, out is_more boolean
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ready cdc.model_plan[] := array(select planned from unnest(plans) as planned where planned.is_ready);
    staged_lsn constant pg_lsn := least((select max(planned.position_lsn) from unnest(ready) as planned), until);
    plan cdc.model_plan;
    concerned cdc.model_plan[] := array[]::cdc.model_plan[];
    is_large boolean;
    -- Of the models' routines; null where each model reads its changes by itself.
    step text;
    changes cdc.change[];
    touched integer[];
    untouched cdc.model_plan[] := array[]::cdc.model_plan[];
begin
    caught_up := array(
        select planned.relation from unnest(ready) as planned
        where planned.applied_lsn = begin_lsn
    );
    caught_up_lsn := begin_lsn;
    is_more := false;
    if begin_lsn is null or staged_lsn <= begin_lsn then
        return;
    end if;
    select batch.end_lsn, batch.is_large into caught_up_lsn, is_large
    from cdc.batch_end(slot, begin_lsn, staged_lsn, cdc.batch_size()) as batch;
    is_more := caught_up_lsn < staged_lsn;
    if not is_large then
        begin
            changes := cdc.read_changes(slot, begin_lsn, caught_up_lsn, begin_lsn, 0, caught_up_lsn, 0, false);
            -- A change that names no table concerns every model, which lists it. As a number it is 0 here: of tables that
            -- no model reads, which have 0 in the reader, no change comes.
            select
                coalesce(array_agg(distinct coalesce(change.table_no, 0)), '{}'),
                case when bool_and(change.action in ('I', 'U')) then 'add plain' else 'add' end
            into touched, step
            from unnest(changes) as change;
        exception
            when others then
                -- Each model meets the same error by itself.
                step := null;
        end;
    end if;
    foreach plan in array ready loop
        continue when plan.applied_lsn < begin_lsn;
        if step is not null and not (plan.table_nos || 0) && touched then
            untouched := untouched || plan;
        else
            concerned := concerned || plan;
        end if;
    end loop;
    caught_up := cdc.try_models(concerned, caught_up_lsn, step, changes, cdc.batch_size());
    if caught_up <> '{}' then
        perform cdc.notify_applied(slot, caught_up_lsn, caught_up);
    end if;
    if cardinality(untouched) > 0 then
        caught_up := caught_up || array(select cdc.move_untouched(untouched, begin_lsn, caught_up_lsn));
    end if;
end
$$;
