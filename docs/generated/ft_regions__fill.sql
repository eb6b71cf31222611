-- Compiled by dbt and installed in the database; `make generated` writes this file.
CREATE OR REPLACE FUNCTION analytics.ft_regions__fill(
    slot text
)
 RETURNS cdc.outcome
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_custom_plan'
 SET lock_timeout TO '1s'
AS $function$
#variable_conflict use_column
declare
    result "cdc".outcome;
begin
    perform "cdc".keep_index(
        '"analytics"."ft_customer_days"',
        array['customer_id'],
        array[]::text[]
    );
    perform "cdc".keep_index(
        '"analytics"."customers"',
        array['region_id'],
        array[]::text[]
    );
    perform "cdc".adapt_table(
        '"analytics"."ft_regions"'::regclass,
        '
select
    null::uuid as id,
    null::text as "channel",
    null::text as "region",
    round(amount / nullif(order_count, 0), 2) as "average_amount",
    measures."order_count",
    measures."amount",
    measures."customers",
    measures."names",
    measures."newest",
    measures."first_day",
    measures."p95_hours"
from (
    select
        null::bigint as "order_count",
        null::numeric as "amount",
        null::bigint as "customers",
        null::bigint as "names",
        null::date as "newest",
        null::date as "first_day",
        null::integer as "p95_hours"
) as measures
where false
',
        array['average_amount']::text[],
        'uix_ft_regions_dimensions',
        false,
        array['channel', 'region'],
        array[]::text[],
        null
    );
    delete from "analytics"."ft_regions";
    truncate "analytics"."ft_regions__values_0";
    truncate "analytics"."ft_regions__values_1";
    truncate "analytics"."ft_regions__values_2";
    truncate "analytics"."ft_regions__values_3";
    truncate "analytics"."ft_regions__values_4";
    delete from "analytics"."rejected_changes" as old where old.fact = 'analytics.ft_regions';

    with finer as materialized (
    select
        f."channel" as d0,
        l1."name" as d1,
        -- The same group has the same id, however often the roll-up is filled.
        md5(row(f."channel", l1."name")::text)::uuid as id,
        f."customer_id" as v0,
        l0."name" as v1,
        l0."since" as v2,
        f."day" as v3,
        f."hours" as v4,
        f."order_count" as s0,
        f."amount" as s1,
        (f."order_count" <> 0)::integer as group_count,
        f."order_count" as weight,
        case
        when octet_length(l1."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when octet_length(l0."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when coalesce(octet_length(f."channel"), 0) + coalesce(octet_length(l1."name"), 0) > 1800
            then 'the values of channel, name together are longer than 1800 bytes'
    end as reason,
        jsonb_build_object(
            'customer', jsonb_build_object('id', f."customer_id"),
            'region', jsonb_build_object('id', l0."region_id")
        )::jsonb as parents
    from "analytics"."ft_customer_days" as f
    left join "analytics"."customers" as l0
        on
            l0."id" = f."customer_id"
    left join "analytics"."regions" as l1
        on
            l1."id" = l0."region_id"
    ),

    delta as not materialized (
        select * from finer
        where reason is null
    ),

    added_0 as (
    insert into "analytics"."ft_regions__values_0" as stored (id, value, group_count, weight)
    select id, v0 as value, sum(group_count) as group_count, sum(weight) as weight
    from delta
    where v0 is not null
    group by id, v0
    having sum(group_count) <> 0 or sum(weight) <> 0
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight
    ),

    added_1 as (
    insert into "analytics"."ft_regions__values_1" as stored (id, value, group_count, weight)
    select id, v1 collate "C" as value, sum(group_count) as group_count, sum(weight) as weight
    from delta
    where v1 is not null
    group by id, v1 collate "C"
    having sum(group_count) <> 0 or sum(weight) <> 0
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight
    ),

    added_2 as (
    insert into "analytics"."ft_regions__values_2" as stored (id, value, group_count, weight)
    select id, v2 as value, sum(group_count) as group_count, sum(weight) as weight
    from delta
    where v2 is not null
    group by id, v2
    having sum(group_count) <> 0 or sum(weight) <> 0
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight
    ),

    added_3 as (
    insert into "analytics"."ft_regions__values_3" as stored (id, value, group_count, weight)
    select id, v3 as value, sum(group_count) as group_count, sum(weight) as weight
    from delta
    where v3 is not null
    group by id, v3
    having sum(group_count) <> 0 or sum(weight) <> 0
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight
    )
    insert into "analytics"."ft_regions__values_4" as stored (id, value, group_count, weight)
    select id, v4 as value, sum(group_count) as group_count, sum(weight) as weight
    from delta
    where v4 is not null
    group by id, v4
    having sum(group_count) <> 0 or sum(weight) <> 0
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight;
    delete from "analytics"."ft_regions__values_0" where group_count = 0 and weight = 0;
    delete from "analytics"."ft_regions__values_1" where group_count = 0 and weight = 0;
    delete from "analytics"."ft_regions__values_2" where group_count = 0 and weight = 0;
    delete from "analytics"."ft_regions__values_3" where group_count = 0 and weight = 0;
    delete from "analytics"."ft_regions__values_4" where group_count = 0 and weight = 0;

    with finer as materialized (
    select
        f."channel" as d0,
        l1."name" as d1,
        -- The same group has the same id, however often the roll-up is filled.
        md5(row(f."channel", l1."name")::text)::uuid as id,
        f."customer_id" as v0,
        l0."name" as v1,
        l0."since" as v2,
        f."day" as v3,
        f."hours" as v4,
        f."order_count" as s0,
        f."amount" as s1,
        (f."order_count" <> 0)::integer as group_count,
        f."order_count" as weight,
        case
        when octet_length(l1."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when octet_length(l0."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when coalesce(octet_length(f."channel"), 0) + coalesce(octet_length(l1."name"), 0) > 1800
            then 'the values of channel, name together are longer than 1800 bytes'
    end as reason,
        jsonb_build_object(
            'customer', jsonb_build_object('id', f."customer_id"),
            'region', jsonb_build_object('id', l0."region_id")
        )::jsonb as parents
    from "analytics"."ft_customer_days" as f
    left join "analytics"."customers" as l0
        on
            l0."id" = f."customer_id"
    left join "analytics"."regions" as l1
        on
            l1."id" = l0."region_id"
    ),

    listed as (
        insert into "analytics"."rejected_changes" (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
        )
        select distinct
            'analytics.ft_regions',
            $1,
            '0/0'::pg_lsn,
            -abs(hashtextextended(reason || parents, 0) >> 1) - 1,
            0,
            now(),
            null,
            'roll-up',
            reason,
            parents::text
        from finer
        where reason is not null and parents is not null
        on conflict do nothing
    ),

    delta as not materialized (
        select * from finer
        where reason is null
    ),

    changed_0 as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            added.d0, added.d1
        from (
            select id, v0 as value, sum(group_count) as group_count, sum(weight) as weight, d0, d1
    from delta
    where v0 is not null
    group by id, v0, d0, d1
    having sum(group_count) <> 0 or sum(weight) <> 0
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from "analytics"."ft_regions__values_0" as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, added.d0, added.d1
    ),

    changed_1 as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            added.d0, added.d1
        from (
            select id, v1 collate "C" as value, sum(group_count) as group_count, sum(weight) as weight, d0, d1
    from delta
    where v1 is not null
    group by id, v1 collate "C", d0, d1
    having sum(group_count) <> 0 or sum(weight) <> 0
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from "analytics"."ft_regions__values_1" as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, added.d0, added.d1
    ),

    changed_2 as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            added.d0, added.d1
        from (
            select id, v2 as value, sum(group_count) as group_count, sum(weight) as weight, d0, d1
    from delta
    where v2 is not null
    group by id, v2, d0, d1
    having sum(group_count) <> 0 or sum(weight) <> 0
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from "analytics"."ft_regions__values_2" as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, added.d0, added.d1
    ),

    changed_3 as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            added.d0, added.d1
        from (
            select id, v3 as value, sum(group_count) as group_count, sum(weight) as weight, d0, d1
    from delta
    where v3 is not null
    group by id, v3, d0, d1
    having sum(group_count) <> 0 or sum(weight) <> 0
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from "analytics"."ft_regions__values_3" as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, added.d0, added.d1
    ),

    changed_4 as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            added.d0, added.d1
        from (
            select id, v4 as value, sum(group_count) as group_count, sum(weight) as weight, d0, d1
    from delta
    where v4 is not null
    group by id, v4, d0, d1
    having sum(group_count) <> 0 or sum(weight) <> 0
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from "analytics"."ft_regions__values_4" as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, added.d0, added.d1
    ),

    -- Added and not joined: the routine's settings allow no hash join, and a nested loop would go through all groups
    -- for each one.
    parts as (
        select
            id,
            s0,
            s1,
            0 as c0, false as h0,
            0 as c1, false as h1,
            0 as c2, false as h2,
            0 as c3, false as h3,
            0 as c4, false as h4,
            d0, d1
        from delta
        union all
        select
            id,
            0, 0, change, true, 0, false, 0, false, 0, false, 0, false,
            d0, d1
        from changed_0
        union all
        select
            id,
            0, 0, 0, false, change, true, 0, false, 0, false, 0, false,
            d0, d1
        from changed_1
        union all
        select
            id,
            0, 0, 0, false, 0, false, change, true, 0, false, 0, false,
            d0, d1
        from changed_2
        union all
        select
            id,
            0, 0, 0, false, 0, false, 0, false, change, true, 0, false,
            d0, d1
        from changed_3
        union all
        select
            id,
            0, 0, 0, false, 0, false, 0, false, 0, false, change, true,
            d0, d1
        from changed_4
    ),

    totals as (
        select
            id,
            sum(s0) as s0,
            sum(s1) as s1,
            sum(c0) as c0, bool_or(h0) as h0,
            sum(c1) as c1, bool_or(h1) as h1,
            sum(c2) as c2, bool_or(h2) as h2,
            sum(c3) as c3, bool_or(h3) as h3,
            sum(c4) as c4, bool_or(h4) as h4,
            d0, d1
        from parts
        group by id, d0, d1
        having
            sum(s0) <> 0 or
            sum(s1) <> 0 or
            bool_or(h0) or
            bool_or(h1) or
            bool_or(h2) or
            bool_or(h3) or
            bool_or(h4) or
            false
    )

    insert into "analytics"."ft_regions" as stored (
        id,
        "channel", "region",
        "order_count",
        "amount",
        "customers",
        "names",
        "newest",
        "first_day",
        "p95_hours",
        "average_amount"
    )
    select
        totals.id,
        totals.d0, totals.d1,
        wanted."order_count",
        wanted."amount",
        wanted."customers",
        wanted."names",
        wanted."newest",
        wanted."first_day",
        wanted."p95_hours",
        wanted."average_amount"
    from totals
    cross join lateral (
        select "order_count",
        "amount",
        "customers",
        "names",
        "newest",
        "first_day",
        "p95_hours",
        round(amount / nullif(order_count, 0), 2)
        from (select
                totals.s0::bigint as "order_count",
                totals.s1::numeric as "amount",
                totals.c0::bigint as "customers",
                totals.c1::bigint as "names",
                case when totals.h2 then (
                    select stored.value
                    from "analytics"."ft_regions__values_2" as stored
                    where stored.id = totals.id and stored.group_count > 0
                    order by stored.value desc
                    limit 1
                ) else (
                    select own."newest" from "analytics"."ft_regions" as own
                    where own.id = totals.id
                ) end as "newest",
                case when totals.h3 then (
                    select stored.value
                    from "analytics"."ft_regions__values_3" as stored
                    where stored.id = totals.id and stored.group_count > 0
                    order by stored.value
                    limit 1
                ) else (
                    select own."first_day" from "analytics"."ft_regions" as own
                    where own.id = totals.id
                ) end as "first_day",
                case when totals.h4 then (
                    select walked.value
                    from (
                        select
                            stored.value,
                            sum(stored.weight) over (order by stored.value) as up_to,
                            sum(stored.weight) over () as total
                        from "analytics"."ft_regions__values_4" as stored
                        where stored.id = totals.id and stored.weight > 0
                    ) as walked
                    -- As percentile_disc() has it.
                    where walked.up_to >= ceil(0.95::double precision * walked.total::double precision)
                    order by walked.value
                    limit 1
                ) else (
                    select own."p95_hours" from "analytics"."ft_regions" as own
                    where own.id = totals.id
                ) end as "p95_hours") as measures
    ) as wanted (
        "order_count",
        "amount",
        "customers",
        "names",
        "newest",
        "first_day",
        "p95_hours",
        "average_amount"
    )
    on conflict ("channel", "region") do update
    set (
        "order_count",
        "amount",
        "customers",
        "names",
        "newest",
        "first_day",
        "p95_hours",
        "average_amount"
    ) = (
        select "order_count",
        "amount",
        "customers",
        "names",
        "newest",
        "first_day",
        "p95_hours",
        round(amount / nullif(order_count, 0), 2)
        from (
            select
                stored."order_count" + excluded."order_count" as "order_count",
                stored."amount" + excluded."amount" as "amount",
                stored."customers" + excluded."customers" as "customers",
                stored."names" + excluded."names" as "names",
                excluded."newest" as "newest",
                excluded."first_day" as "first_day",
                excluded."p95_hours" as "p95_hours"
        ) as total
    );

    analyze "analytics"."ft_regions__values_0";
    analyze "analytics"."ft_regions__values_1";
    analyze "analytics"."ft_regions__values_2";
    analyze "analytics"."ft_regions__values_3";
    analyze "analytics"."ft_regions__values_4";
    return result;
end
$function$
