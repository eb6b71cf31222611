-- List what could not be counted, and move the watermarks to to_lsn. A watermark also says which change was rejected
-- last, and from where on changes came without their old row (lost_lsn).
create or replace function cdc.end_models(plans cdc.model_plan[], to_lsn pg_lsn, chunk_size bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
    moved_count bigint;
begin
    for n in 1..cardinality(plans) loop
        plan := plans[n];
        if plan.rejected_lsn is not null then
            -- Change by change now.
            select greatest(plan.lost_lsn, done.lost_lsn) into plan.lost_lsn
            from cdc.step_through(plan, to_lsn, 'list', chunk_size) as done;
            plans[n] := plan;
        end if;
        if plan.error is not null or plan.is_refresh_asked then
            update cdc.installed_model as stored
            set
                is_refresh_asked = stored.is_refresh_asked and plan.step <> 'rebuild',
                error = null, remedy = null, is_locked = false, is_unseen = false, failures = 0, retry_at = null
            where stored.slot_name = plan.slot_name and stored.relation = plan.relation;
        end if;
    end loop;

    insert into cdc.model_watermark (
        relation, slot_name, applied_lsn, baseline_id, declaration, rejected_lsn, audited_at,
        major_version, lost_lsn
    )
    select
        planned.relation,
        planned.slot_name,
        to_lsn,
        planned.baseline_id,
        planned.declaration,
        greatest(
            planned.rejected_lsn,
            case
                when planned.step = 'add' then mark.rejected_lsn
                when exists (
                    select from cdc.baseline_rejection as rejected
                    where rejected.slot_name = planned.slot_name and rejected.model_name = planned.model_name
                -- A row that the seed could not count was written before its position.
                ) then planned.snapshot_lsn - 1
            end
        ),
        case when planned.step = 'add' then mark.audited_at end,
        case when planned.step = 'add' then mark.major_version else coalesce(baseline.major_version, cdc.major_version()) end,
        coalesce(
            case when planned.step = 'add' then mark.lost_lsn end,
            case when planned.lost_lsn is not null then planned.from_lsn end
        )
    from unnest(plans) as planned
    inner join cdc.slot_position as log on log.slot_name = planned.slot_name
    left join cdc.baseline
        on baseline.slot_name = planned.slot_name and baseline.model_name = planned.model_name
    left join cdc.model_watermark as mark
        on mark.slot_name = planned.slot_name and mark.relation = planned.relation
    -- Nothing of this is locked: what was read above may be of another seed or of a log that was pruned.
    where
        log.start_lsn <= planned.from_lsn
        and baseline.baseline_id is not distinct from planned.baseline_id
    on conflict on constraint model_watermark_pkey do update
    set
        applied_lsn = excluded.applied_lsn,
        baseline_id = excluded.baseline_id,
        declaration = excluded.declaration,
        rejected_lsn = excluded.rejected_lsn,
        audited_at = excluded.audited_at,
        major_version = excluded.major_version,
        lost_lsn = excluded.lost_lsn,
        moved_at = now();
    get diagnostics moved_count = row_count;
    if moved_count < cardinality(plans) then
        raise exception 'the change log was pruned or a baseline replaced meanwhile' using errcode = 'WL001';
    end if;
end
$$;
