-- Compiled by dbt and installed in the database; `make generated` writes this file.
CREATE OR REPLACE FUNCTION analytics.ft_regions__add_1(
    slot text,
    moved cdc.moved_row[],
    is_watched boolean
)
 RETURNS cdc.outcome
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_seqscan TO 'off'
 SET lock_timeout TO '100ms'
AS $function$
#variable_conflict use_column
declare
    delta "cdc".group_delta[];
    is_large boolean := false;
begin
    if exists (select from "analytics"."rejected_changes" as old where old.fact = 'analytics.ft_regions') then
        with old_rows as materialized (
        select * from (
        select
            moved.before[1]::integer as "id",
            moved.before[2]::integer as "region_id",
            moved.before[3]::date as "since",
            moved.before[4]::text as "name"
        from unnest($2) as moved
        where moved.before is not null
    ) as moved
    ),

    new_rows as materialized (
        select * from (
        select
            moved.after[1]::integer as "id",
            moved.after[2]::integer as "region_id",
            moved.after[3]::date as "since",
            moved.after[4]::text as "name"
        from unnest($2) as moved
        where moved.after is not null
    ) as moved
    ),

    touched as materialized (
        select distinct "id"
        from (
            (
                select "id", "name", "since", "region_id" from old_rows
                except select "id", "name", "since", "region_id" from new_rows
            )
            union all
            (
                select "id", "name", "since", "region_id" from new_rows
                except select "id", "name", "since", "region_id" from old_rows
            )
        ) as changed
    )

        delete from "analytics"."rejected_changes" as old
        using touched
        where
            old.fact = 'analytics.ft_regions'
            and old.payload::jsonb @> jsonb_build_object(
                'customer', jsonb_build_object('id', touched."id")
            );
    end if;

    with old_rows as materialized (
        select * from (
        select
            moved.before[1]::integer as "id",
            moved.before[2]::integer as "region_id",
            moved.before[3]::date as "since",
            moved.before[4]::text as "name"
        from unnest($2) as moved
        where moved.before is not null
    ) as moved
    ),

    new_rows as materialized (
        select * from (
        select
            moved.after[1]::integer as "id",
            moved.after[2]::integer as "region_id",
            moved.after[3]::date as "since",
            moved.after[4]::text as "name"
        from unnest($2) as moved
        where moved.after is not null
    ) as moved
    ),

    touched as materialized (
        select distinct "id"
        from (
            (
                select "id", "name", "since", "region_id" from old_rows
                except select "id", "name", "since", "region_id" from new_rows
            )
            union all
            (
                select "id", "name", "since", "region_id" from new_rows
                except select "id", "name", "since", "region_id" from old_rows
            )
        ) as changed
    ),

    source as materialized (
        select * from (

    select f.*
    from touched as l0
    cross join "analytics"."ft_customer_days" as f
    where
        l0."id" = f."customer_id"
        ) as f
        limit "cdc".slice_size() / 20 + 1
    ),

    finer as materialized (
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
    from source as f
    left join "analytics"."customers" as l0
        on
            l0."id" = f."customer_id"
    left join "analytics"."regions" as l1
        on
            l1."id" = l0."region_id"
        union all
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
        -f."order_count" as s0,
        -f."amount" as s1,
        -(f."order_count" <> 0)::integer as group_count,
        -f."order_count" as weight,
        case
        when octet_length(l1."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when octet_length(l0."name") > 1000
            then 'the value of name is longer than 1000 bytes'
        when coalesce(octet_length(f."channel"), 0) + coalesce(octet_length(l1."name"), 0) > 1800
            then 'the values of channel, name together are longer than 1800 bytes'
    end as reason,
        null::jsonb as parents
    from source as f
    left join old_rows as l0
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
    )

    select
        (select count(*) from source) > "cdc".slice_size() / 20
        or exists (select from source) and (select count(*) from touched) > "cdc".slice_size() / 200,
        array_agg(row(
            id,
            array[d0::text, d1::text],
            array[v0::text, v1::text, v2::text, v3::text, v4::text]::text[],
            array[s0, s1]::numeric[],
            group_count,
            weight
        )::"cdc".group_delta)
    into is_large, delta
    from finer
    where reason is null;
    -- Where much has moved it is filled apart, so that the inputs do not wait for it.
    if is_large then
        return (null, null, null, null, true, null)::"cdc".outcome;
    elsif delta is null then
        return null;
    end if;
    return "analytics"."ft_regions__merge"(delta, $3);
end
$function$
