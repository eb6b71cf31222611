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
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET lock_timeout TO '100ms'
AS $function$
#variable_conflict use_column
declare
    result "cdc".outcome;
begin
    lock table "analytics"."ft_service_stats" in row exclusive mode nowait;
    if $1 in ('begin', 'rebuild') then
        if $1 = 'begin' and exists (
            select from "analytics"."ft_service_stats" where true
        ) then
            -- Without a watermark nothing says where these counts come from: another slot, or a baseline
            -- that is gone. A rebuild would replace them by what this log alone holds.
            raise exception 'it holds counts, and nothing says that they come from the slot %', $2
                using hint = '`spark-submit spark/seed.py --model ft_service_stats`; where no slot has a baseline, '
                || '`dbt build --full-refresh` keeps what this log holds and nothing else';
        end if;
        result.is_replaced := "cdc".adapt_table(
        '"analytics"."ft_service_stats"'::regclass,
        '
select
    null::uuid as id,
    null::uuid as "service_id",
    null::uuid as "template_id",
    null::text as "notification_type",
    null::text as "notification_status",
    cast(greatest(live_count + archived_count, 0) as bigint) as "count",
    measures."live_count",
    measures."archived_count"
from (
    select
        null::bigint as "live_count",
        null::bigint as "archived_count"
) as measures
where false
',
        array['count']::text[],
        'uix_ft_service_stats_dimensions',
        false,
        array['service_id',
        'template_id',
        'notification_type',
        'notification_status'],
        array['service_id',
        'template_id',
        'notification_type',
        'notification_status',
        'live_count',
        'archived_count']::text[],
        null
    );

delete from "analytics"."rejected_changes" as old
where
    old.fact = 'analytics.ft_service_stats';
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
    case rejected.part
        when 'live' then 'public.notifications'
        when 'archived' then 'public.notification_history'
    end,
    'baseline',
    rejected.reason,
    jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
from "cdc".baseline_rejection as rejected
inner join "cdc".baseline as baseline
    on
        baseline.slot_name = rejected.slot_name
        and baseline.fact_name = rejected.fact_name
where
    baseline.slot_name = $2
    and baseline.fact_name = 'ft_service_stats';

    elsif $1 = 'list' then
        insert into "analytics"."rejected_changes" (
    fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
)
select
    'analytics.ft_service_stats',
    log.slot_name,
    log.commit_lsn,
    log.ordinal,
    log.xid,
    log.committed_at,
    case deltas.part
        when 'live' then 'public.notifications'
        when 'archived' then 'public.notification_history'
    end,
    deltas.action,
    deltas.rejected_reason,
    log.payload
        from "analytics"."ft_service_stats__deltas"($2, $3, $4, $5) as deltas
        inner join "cdc".change_log as log
            on log.slot_name = $2 and log.commit_lsn = deltas.commit_lsn and log.ordinal = deltas.ordinal
        where deltas.rejected_reason is not null;
    elsif $1 = 'add plain' then
        with deltas as materialized (
    select * from "analytics"."ft_service_stats__deltas"($2, $3, $4, $5)
),

contributions as (
    select
        d0, d1, d2, d3,
        sign * case
            when part in ('live')
                then change_count
            else 0
        end as m0,
        sign * case
            when part in ('archived')
                then change_count
            else 0
        end as m1,
        false as is_stored
    from deltas
    where deltas.sign is not null and not deltas.is_ignored
),

totals as (
    select
        d0, d1, d2, d3,
        sum(m0)::bigint as m0,
        sum(m1)::bigint as m1
    from contributions
    group by d0, d1, d2, d3
    having
        sum(m0) <> 0 or
        sum(m1) <> 0 or
        bool_or(is_stored)
),

added as (
    insert into "analytics"."ft_service_stats" as stored (id, "service_id",
        "template_id",
        "notification_type",
        "notification_status", "count", "live_count", "archived_count")
    select
        -- The same group has the same id, however often the fact is rebuilt.
        md5(row(totals.d0, totals.d1, totals.d2, totals.d3)::text)::uuid,
        totals.d0, totals.d1, totals.d2, totals.d3,
        greatest(live_count + archived_count, 0),
        measures."live_count", measures."archived_count"
    from totals
    cross join lateral (
        select
            totals.m0 as "live_count",
            totals.m1 as "archived_count"
    ) as measures
    on conflict ("service_id",
        "template_id",
        "notification_type",
        "notification_status") do update
    set ("live_count", "archived_count", "count") = (
        select "live_count", "archived_count", greatest(live_count + archived_count, 0)
        from (
            select
                stored."live_count" + excluded."live_count" as "live_count",
                stored."archived_count" + excluded."archived_count" as "archived_count"
        ) as total
    )
    where
        excluded."live_count" <> 0 or excluded."archived_count" <> 0 or
        stored."count" is distinct from (
            select greatest(live_count + archived_count, 0)
            from (
                select
                    stored."live_count",
                    stored."archived_count"
            ) as total
        ) or false
    returning
        stored."service_id" as d0,
        stored."template_id" as d1,
        stored."notification_type" as d2,
        stored."notification_status" as d3,
        stored."live_count" as m0,
        stored."archived_count" as m1
),
moved as (
    select
        d0, d1, d2, d3,
        sum(m0) as m0,
        sum(a0) as a0,
        sum(m1) as m1,
        sum(a1) as a1
    from (
        select d0, d1, d2, d3, m0, m1, 0 as a0, 0 as a1
        from added
        union all
        select d0, d1, d2, d3, 0, 0, m0, m1
        from totals
    ) as both_sides
    where $7 and (select count(*) from totals) <= "cdc".slice_size() / 10
    group by d0, d1, d2, d3
    having sum(a0) <> 0 or sum(a1) <> 0
),

told as (
    select
        array_agg(row(
            array[d0::text, d1::text, d2::text, d3::text, (m0 - a0)::text, (m1 - a1)::text],
            array[d0::text, d1::text, d2::text, d3::text, m0::text, m1::text]
        )::"cdc".moved_row) as moved,
        -- Then the roll-ups are filled apart, so that the other models do not wait for them.
        $7 and (select count(*) from totals) > "cdc".slice_size() / 10 as is_reset
    from moved
)

select
    max(parts.rejected_lsn),
    jsonb_object_agg(
        parts.part, jsonb_build_object('row_count', parts.left_out, 'is_truncated', parts.is_truncated)
    ) filter (where parts.part is not null),
    (select told.moved from told),
    (select told.is_reset from told)
into result.rejected_lsn, result.left_out, result.moved, result.is_reset
from (
    select
        part,
        max(last_lsn) filter (where rejected_reason is not null) as rejected_lsn,
        sum(left_out) as left_out,
        coalesce(bool_or(action = 'T' and rejected_reason is null), false) as is_truncated
    from deltas
    group by part
) as parts;

    elsif $1 in ('add', 'refill') then
        with deltas as materialized (
    select * from "analytics"."ft_service_stats__deltas"($2, $3, $4, $5)
),

-- A TRUNCATE takes away what came before it: compute_deltas has taken it out of the deltas, and here it goes
-- out of the table. A rebuild has left it out of the baseline.
truncates as (
    select distinct part
    from deltas
    where action = 'T' and rejected_reason is null and $1 = 'add'
),

contributions as (
    select
        d0, d1, d2, d3,
        sign * case
            when part in ('live')
                then change_count
            else 0
        end as m0,
        sign * case
            when part in ('archived')
                then change_count
            else 0
        end as m1,
        false as is_stored
    from deltas
    where deltas.sign is not null and not deltas.is_ignored

    union all

    select
        stored."service_id" as d0,
        stored."template_id" as d1,
        stored."notification_type" as d2,
        stored."notification_status" as d3,
        case
            when false
                or exists (select from truncates where part in ('live'))
                then -stored."live_count"
            else 0
        end as m0,
        case
            when false
                or exists (select from truncates where part in ('archived'))
                then -stored."archived_count"
            else 0
        end as m1,
        true as is_stored
    from "analytics"."ft_service_stats" as stored
    where exists (select from truncates)
),

totals as (
    select
        d0, d1, d2, d3,
        sum(m0)::bigint as m0,
        sum(m1)::bigint as m1
    from contributions
    group by d0, d1, d2, d3
    having
        sum(m0) <> 0 or
        sum(m1) <> 0 or
        bool_or(is_stored)
),

added as (
    insert into "analytics"."ft_service_stats" as stored (id, "service_id",
        "template_id",
        "notification_type",
        "notification_status", "count", "live_count", "archived_count")
    select
        -- The same group has the same id, however often the fact is rebuilt.
        md5(row(totals.d0, totals.d1, totals.d2, totals.d3)::text)::uuid,
        totals.d0, totals.d1, totals.d2, totals.d3,
        greatest(live_count + archived_count, 0),
        measures."live_count", measures."archived_count"
    from totals
    cross join lateral (
        select
            totals.m0 as "live_count",
            totals.m1 as "archived_count"
    ) as measures
    on conflict ("service_id",
        "template_id",
        "notification_type",
        "notification_status") do update
    set ("live_count", "archived_count", "count") = (
        select "live_count", "archived_count", greatest(live_count + archived_count, 0)
        from (
            select
                stored."live_count" + excluded."live_count" as "live_count",
                stored."archived_count" + excluded."archived_count" as "archived_count"
        ) as total
    )
    where
        excluded."live_count" <> 0 or excluded."archived_count" <> 0 or
        stored."count" is distinct from (
            select greatest(live_count + archived_count, 0)
            from (
                select
                    stored."live_count",
                    stored."archived_count"
            ) as total
        ) or false
    returning
        stored."service_id" as d0,
        stored."template_id" as d1,
        stored."notification_type" as d2,
        stored."notification_status" as d3,
        stored."live_count" as m0,
        stored."archived_count" as m1
),
moved as (
    select
        d0, d1, d2, d3,
        sum(m0) as m0,
        sum(a0) as a0,
        sum(m1) as m1,
        sum(a1) as a1
    from (
        select d0, d1, d2, d3, m0, m1, 0 as a0, 0 as a1
        from added
        union all
        select d0, d1, d2, d3, 0, 0, m0, m1
        from totals
    ) as both_sides
    where $7 and (select count(*) from totals) <= "cdc".slice_size() / 10
    group by d0, d1, d2, d3
    having sum(a0) <> 0 or sum(a1) <> 0
),

told as (
    select
        array_agg(row(
            array[d0::text, d1::text, d2::text, d3::text, (m0 - a0)::text, (m1 - a1)::text],
            array[d0::text, d1::text, d2::text, d3::text, m0::text, m1::text]
        )::"cdc".moved_row) as moved,
        -- Then the roll-ups are filled apart, so that the other models do not wait for them.
        $7 and (select count(*) from totals) > "cdc".slice_size() / 10 as is_reset
    from moved
),

forgotten as (
    delete from "cdc".archived_delete as old
    where
        old.slot_name = $2
        and old.model_name = 'analytics.ft_service_stats'
        -- An array is made once; a semi-join would go through all deltas for each row.
        and old.part = any(array(
            select deltas.part from deltas where deltas.action = 'T' and deltas.rejected_reason is null
        ))
),

written_down as (
    insert into "cdc".archived_delete (slot_name, model_name, part, commit_lsn, dimensions, measures)
    select
        $2,
        'analytics.ft_service_stats',
        part,
        commit_lsn,
        array[
            d0::text,
            d1::text,
            d2::text,
            d3::text
        ],
        array[
            sum(case
            when part in ('live')
                then change_count
            else 0
        end)::numeric,
            sum(case
            when part in ('archived')
                then change_count
            else 0
        end)::numeric
        ]
    from deltas
    where is_ignored and sign is not null
    group by part, commit_lsn, d0, d1, d2, d3
)

select
    max(parts.rejected_lsn),
    jsonb_object_agg(
        parts.part, jsonb_build_object('row_count', parts.left_out, 'is_truncated', parts.is_truncated)
    ) filter (where parts.part is not null),
    (select told.moved from told),
    (select told.is_reset from told)
into result.rejected_lsn, result.left_out, result.moved, result.is_reset
from (
    select
        part,
        max(last_lsn) filter (where rejected_reason is not null) as rejected_lsn,
        sum(left_out) as left_out,
        coalesce(bool_or(action = 'T' and rejected_reason is null), false) as is_truncated
    from deltas
    group by part
) as parts;

    end if;
    if $1 in ('begin', 'rebuild', 'merge') then

with tables (part, source_table) as (
    values
    ('live', 'public.notifications'),
    ('archived', 'public.notification_history')
),

truncates as (
    select tables.part from tables
    where $1 <> 'merge' or tables.source_table = any ($6)
),

groups as (
    select counted.dimensions, counted.measures
    from "cdc".baseline_group as counted
    inner join tables on tables.part = counted.part
    where
        $1 <> 'merge'
        and counted.slot_name = $2
        and counted.fact_name = 'ft_service_stats'
        and tables.source_table <> all (coalesce($6, '{}'))

    union all
    select computed.new_values, computed.old_values::numeric[]
    from unnest($3) as computed
    where $1 = 'merge'
),

contributions as (
    select
        groups.dimensions[1]::uuid as d0,
        groups.dimensions[2]::uuid as d1,
        groups.dimensions[3]::text as d2,
        groups.dimensions[4]::text as d3,
        groups.measures[1]::bigint as m0,
        groups.measures[2]::bigint as m1,
        false as is_stored
    from groups

    union all

    select
        stored."service_id" as d0,
        stored."template_id" as d1,
        stored."notification_type" as d2,
        stored."notification_status" as d3,
        case
            when $1 <> 'merge'
                or exists (select from truncates where part in ('live'))
                then -stored."live_count"
            else 0
        end as m0,
        case
            when $1 <> 'merge'
                or exists (select from truncates where part in ('archived'))
                then -stored."archived_count"
            else 0
        end as m1,
        true as is_stored
    from "analytics"."ft_service_stats" as stored
    where exists (select from truncates)
),

totals as (
    select
        d0, d1, d2, d3,
        sum(m0)::bigint as m0,
        sum(m1)::bigint as m1
    from contributions
    group by d0, d1, d2, d3
    having
        sum(m0) <> 0 or
        sum(m1) <> 0 or
        bool_or(is_stored)
),

added as (
    insert into "analytics"."ft_service_stats" as stored (id, "service_id",
        "template_id",
        "notification_type",
        "notification_status", "count", "live_count", "archived_count")
    select
        -- The same group has the same id, however often the fact is rebuilt.
        md5(row(totals.d0, totals.d1, totals.d2, totals.d3)::text)::uuid,
        totals.d0, totals.d1, totals.d2, totals.d3,
        greatest(live_count + archived_count, 0),
        measures."live_count", measures."archived_count"
    from totals
    cross join lateral (
        select
            totals.m0 as "live_count",
            totals.m1 as "archived_count"
    ) as measures
    on conflict ("service_id",
        "template_id",
        "notification_type",
        "notification_status") do update
    set ("live_count", "archived_count", "count") = (
        select "live_count", "archived_count", greatest(live_count + archived_count, 0)
        from (
            select
                stored."live_count" + excluded."live_count" as "live_count",
                stored."archived_count" + excluded."archived_count" as "archived_count"
        ) as total
    )
    where
        excluded."live_count" <> 0 or excluded."archived_count" <> 0 or
        stored."count" is distinct from (
            select greatest(live_count + archived_count, 0)
            from (
                select
                    stored."live_count",
                    stored."archived_count"
            ) as total
        ) or false
    returning
        stored."service_id" as d0,
        stored."template_id" as d1,
        stored."notification_type" as d2,
        stored."notification_status" as d3,
        stored."live_count" as m0,
        stored."archived_count" as m1
),
moved as (
    select
        d0, d1, d2, d3,
        sum(m0) as m0,
        sum(a0) as a0,
        sum(m1) as m1,
        sum(a1) as a1
    from (
        select d0, d1, d2, d3, m0, m1, 0 as a0, 0 as a1
        from added
        union all
        select d0, d1, d2, d3, 0, 0, m0, m1
        from totals
    ) as both_sides
    where $7 and (select count(*) from totals) <= "cdc".slice_size() / 10
    group by d0, d1, d2, d3
    having sum(a0) <> 0 or sum(a1) <> 0
),

told as (
    select
        array_agg(row(
            array[d0::text, d1::text, d2::text, d3::text, (m0 - a0)::text, (m1 - a1)::text],
            array[d0::text, d1::text, d2::text, d3::text, m0::text, m1::text]
        )::"cdc".moved_row) as moved,
        -- Then the roll-ups are filled apart, so that the other models do not wait for them.
        $7 and (select count(*) from totals) > "cdc".slice_size() / 10 as is_reset
    from moved
)

select told.moved, told.is_reset into result.moved, result.is_reset from told;

    end if;
    return result;
end
$function$
