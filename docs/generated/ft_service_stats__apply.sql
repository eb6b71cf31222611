-- Compiled by dbt and installed in the database; `make generated` writes this file.
CREATE OR REPLACE FUNCTION analytics.ft_service_stats__apply(
    step text,
    slot text,
    changes cdc.change[],
    table_nos integer[],
    places integer[],
    truncated text[],
    is_watched boolean
)
 RETURNS cdc.outcome
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET jit TO 'off'
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET array_nulls TO 'on'
 SET lock_timeout TO '100ms'
 SET "TimeZone" TO 'UTC'
AS $function$
#variable_conflict use_column
declare
    result "cdc".outcome;
    good "cdc".change[];
    bad "cdc".change[];
    messages text[];
    -- The table may have a column of any other name.
    waltally_emptied tid[];
    waltally_least_count numeric;
    waltally_is_row boolean;
    waltally_groups text[];
    waltally_group text;
    waltally_said text;
    waltally_tried "cdc".change[];
begin
    lock table analytics.ft_service_stats in row exclusive mode nowait;
    if $1 = 'rebuild' then
        perform "cdc".reshape_table('analytics.ft_service_stats', E'[["id", "uuid primary key"], ["service_id", "uuid"], ["template_id", "uuid"], ["notification_type", "text collate \\"C\\""], ["notification_status", "text collate \\"C\\""], ["count", "bigint not null"], ["live_count", "bigint not null"], ["archived_count", "bigint not null"], ["waltally_1_archived_count", "bigint not null"], ["waltally_1_count", "bigint not null"], ["waltally_1_live_count", "bigint not null"]]', '{service_id,template_id,notification_type,notification_status}', 'alter table analytics.ft_service_stats add constraint waltally_key unique nulls not distinct (service_id, template_id, notification_type, notification_status);');
        delete from analytics.ft_service_stats;
        delete from "analytics"."rejected_changes" as old where old.fact = 'analytics.ft_service_stats' and old.slot_name = $2;
        insert into "analytics"."rejected_changes" (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
        )
        select
            'analytics.ft_service_stats',
            baseline.slot_name,
            baseline.snapshot_lsn,
            -row_number() over (order by rejected.part, rejected.reason),
            0,
            baseline.counted_at,
            rejected.part,
            'baseline',
            rejected.reason,
            jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
        from "cdc".baseline_rejection as rejected
        inner join "cdc".baseline as baseline
            on baseline.slot_name = rejected.slot_name and baseline.fact_name = rejected.fact_name
        where baseline.slot_name = $2 and baseline.fact_name = 'ft_service_stats';
        insert into analytics.ft_service_stats (id, service_id, template_id, notification_type, notification_status, count, live_count, archived_count, waltally_1_archived_count, waltally_1_count, waltally_1_live_count)
        select
            md5(row(counted.dimensions[1]::uuid, counted.dimensions[2]::uuid, counted.dimensions[3]::text, counted.dimensions[4]::text)::text)::uuid,
            counted.dimensions[1]::uuid,
            counted.dimensions[2]::uuid,
            counted.dimensions[3]::text,
            counted.dimensions[4]::text,
            coalesce(sum(counted.measures[1]), 0)::bigint,
            coalesce(sum(counted.measures[2]), 0)::bigint,
            coalesce(sum(counted.measures[3]), 0)::bigint,
            coalesce(sum(counted.measures[3]) filter (where counted.part = 'public.notification_history'), 0)::bigint,
            coalesce(sum(counted.measures[1]) filter (where counted.part = 'public.notification_history'), 0)::bigint,
            coalesce(sum(counted.measures[2]) filter (where counted.part = 'public.notification_history'), 0)::bigint
        from "cdc".baseline_group as counted
        where counted.slot_name = $2 and counted.fact_name = 'ft_service_stats' and counted.part <> all (coalesce($6, '{}'))
        group by counted.dimensions[1]::uuid, counted.dimensions[2]::uuid, counted.dimensions[3]::text, counted.dimensions[4]::text;
        return result;
    end if;

    -- A batch holds a change for other models too, and one that no model can count.
    good := array(
        select change from unnest($3) as change
        where change.table_no = any ($4) and not change.is_cancelled and change.problem is null
            and change.action in ('I', 'U', 'D')
            and (change.missing is null or not "cdc".lacks(change, $4, $5))
    );
    if $1 <> 'list' then
        select max(change.last_lsn), max(change.last_lsn) filter (where "cdc".is_lost(change))
        into result.rejected_lsn, result.lost_lsn
        from unnest("cdc".reject($3, '[["notification_status", "notification_type", "service_id", "template_id"], ["notification_status", "notification_type", "service_id", "template_id"]]', $4, $5)) as change;
        if exists (select from unnest($3) as change where change.table_no = ($4)[1] and change.action = 'T' and change.problem is null) then
            result.is_reset := true;
            if $1 = 'add' then
            update analytics.ft_service_stats set count = count - waltally_1_count, waltally_1_count = 0, live_count = live_count - waltally_1_live_count, waltally_1_live_count = 0, archived_count = archived_count - waltally_1_archived_count, waltally_1_archived_count = 0;
            delete from analytics.ft_service_stats where count = 0;
            end if;
            delete from "cdc".archived_delete as old where old.slot_name = $2 and old.model_name = 'analytics.ft_service_stats' and old.part = 'public.notification_history';
        end if;
        if exists (select from unnest($3) as change where change.table_no = ($4)[2] and change.action = 'T' and change.problem is null) then
            result.is_reset := true;
            if $1 = 'add' then
            update analytics.ft_service_stats set count = waltally_1_count, live_count = waltally_1_live_count, archived_count = waltally_1_archived_count;
            delete from analytics.ft_service_stats where count = 0;
            end if;
        end if;

        loop
            begin

with totals as (
    select
        service_id, template_id, notification_type, notification_status,
        sum(count)::bigint as count,
        sum(live_count)::bigint as live_count,
        sum(archived_count)::bigint as archived_count,
        coalesce(sum(count) filter (where waltally_source_no = 1), 0)::bigint as waltally_1_count,
        coalesce(sum(live_count) filter (where waltally_source_no = 1), 0)::bigint as waltally_1_live_count,
        coalesce(sum(archived_count) filter (where waltally_source_no = 1), 0)::bigint as waltally_1_archived_count
    from (
        select * from analytics.ft_service_stats__deltas(good, $4, $5) as changed where changed.waltally_archived_lsn is null and (waltally_group is null or row(changed.service_id, changed.template_id, changed.notification_type, changed.notification_status)::text = waltally_group)
    ) as delta
    group by service_id, template_id, notification_type, notification_status
),

before as (
    select (stored.*)::text as row from totals inner join analytics.ft_service_stats as stored on stored.service_id = totals.service_id and stored.template_id = totals.template_id and stored.notification_type = totals.notification_type and stored.notification_status = totals.notification_status where $7
    union all
    select found.row from "cdc".find_null_groups('analytics.ft_service_stats', '{service_id,template_id,notification_type,notification_status}', '{uuid,uuid,text,text}', (
        select jsonb_agg(jsonb_build_array(totals.service_id::text, totals.template_id::text, totals.notification_type::text, totals.notification_status::text)) from totals where $7 and (totals.service_id is null or totals.template_id is null or totals.notification_type is null or totals.notification_status is null)
    )) as found (row)
),

merged as (
    insert into analytics.ft_service_stats as stored (id, service_id, template_id, notification_type, notification_status, count, live_count, archived_count, waltally_1_archived_count, waltally_1_count, waltally_1_live_count)
    select
        md5(row(service_id, template_id, notification_type, notification_status)::text)::uuid,
        totals.service_id,
        totals.template_id,
        totals.notification_type,
        totals.notification_status,
        totals.count,
        totals.live_count,
        totals.archived_count,
        totals.waltally_1_archived_count,
        totals.waltally_1_count,
        totals.waltally_1_live_count
    from totals
    on conflict (service_id, template_id, notification_type, notification_status) do update
    set
        count = stored.count + excluded.count,
        live_count = stored.live_count + excluded.live_count,
        archived_count = stored.archived_count + excluded.archived_count,
        waltally_1_archived_count = stored.waltally_1_archived_count + excluded.waltally_1_archived_count,
        waltally_1_count = stored.waltally_1_count + excluded.waltally_1_count,
        waltally_1_live_count = stored.waltally_1_live_count + excluded.waltally_1_live_count
    returning stored.ctid as place, stored.count as row_count, least(stored.count, stored.live_count, stored.archived_count) as least_count,
        case when $7 then (stored.*)::text end as row
)

select
    array_agg(merged.place) filter (where merged.row_count = 0),
    min(merged.least_count),
    array_agg(merged.row) filter (where $7 and merged.row_count > 0),
    (select array_agg(before.row) from before)
into waltally_emptied, waltally_least_count, result.after, result.before
from merged;
if waltally_least_count < 0 then
    raise exception 'a number of rows or values would fall below zero'
        using errcode = 'WL004';
end if;

                insert into "cdc".archived_delete (slot_name, model_name, part, commit_lsn, dimensions, measures)
select $2, 'analytics.ft_service_stats', (array['public.notification_history', 'public.notifications'])[delta.waltally_source_no], delta.waltally_archived_lsn, array[delta.service_id::text, delta.template_id::text, delta.notification_type::text, delta.notification_status::text]::text[], array[-delta.count, -delta.live_count, -delta.archived_count]
from analytics.ft_service_stats__deltas(array(select change from unnest(good) as change where change.action = 'D' and change.table_no in (($4)[1])), $4, $5) as delta where delta.waltally_archived_lsn is not null;
                exit when waltally_group is null;
            exception
                when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
                    waltally_said := sqlerrm;
                    if waltally_group is not null then
                        raise exception '% in the group %', sqlerrm, waltally_group
                            using errcode = sqlstate, hint = 'Cast what is summed to numeric, or write the expression so that it takes any total.';
                    elsif bad is null then
                        -- Once without those that are bad, and without updates that move other models' values alone.
                        waltally_tried := good;
                        select * into good, bad, messages from "cdc".find_bad_images('analytics.ft_service_stats__deltas', good, $4, $5);
                        select greatest(result.rejected_lsn, max(change.last_lsn)) into result.rejected_lsn
                        from unnest("cdc".name_bad_rows(bad, messages)) as change;
                        waltally_is_row := good <> waltally_tried;
                    else
                        waltally_is_row := false;
                    end if;
                    if not waltally_is_row then
                        -- An expression of totals is to blame, or their size: try one group after the other.
                        waltally_groups := array(select distinct row(changed.service_id, changed.template_id, changed.notification_type, changed.notification_status)::text from analytics.ft_service_stats__deltas(good, $4, $5) as changed);
                    end if;
            end;
            continue when waltally_groups is null;
            waltally_group := waltally_groups[1];
            waltally_groups := waltally_groups[2:];
            if waltally_group is null then
                raise exception 'the totals of several groups do not fit: %', waltally_said using errcode = '22003';
            end if;
        end loop;
        delete from analytics.ft_service_stats where ctid = any (waltally_emptied);
        return result;
    end if;

    select * into good, bad, messages from "cdc".find_bad_images('analytics.ft_service_stats__deltas', good, $4, $5);
    perform "cdc".list_rejected(
        '"analytics"."rejected_changes"', 'analytics.ft_service_stats', $2, array['public.notification_history', 'public.notifications'], $4, "cdc".name_bad_rows(bad, messages) || "cdc".reject($3, '[["notification_status", "notification_type", "service_id", "template_id"], ["notification_status", "notification_type", "service_id", "template_id"]]', $4, $5)
    );
    return result;
end
$function$
