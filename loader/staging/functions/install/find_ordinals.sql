-- Where a routine finds its values in what a reader gives; see installed_model.
create or replace function cdc.find_ordinals(needs jsonb, gives jsonb, out table_nos integer[], out ordinals integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with given as (
        select
            one.value ->> 0 as source_table,
            one.ordinal::integer as table_no,
            one.value -> 1 as list
        from jsonb_array_elements(gives) with ordinality as one (value, ordinal)
    ),

    needed as (
        select
            need.ordinal,
            given.table_no,
            array(
                select (
                    select there.ordinal::integer
                    from jsonb_array_elements(given.list) with ordinality as there (value, ordinal)
                    where there.value = own.value
                )
                from jsonb_array_elements(need.value -> 1) with ordinality as own (value, ordinal)
                order by own.ordinal
            ) as ordinals,
            not exists (
                select from jsonb_array_elements(need.value -> 1) as own (value)
                where own.value <> 'null' and not given.list @> jsonb_build_array(own.value)
            ) as is_complete
        from jsonb_array_elements(needs) with ordinality as need (value, ordinal)
        left join given on given.source_table = need.value ->> 0
    )

    select
        case when bool_and(needed.is_complete and needed.table_no is not null)
            then array_agg(needed.table_no order by needed.ordinal) end,
        case when max(cardinality(needed.ordinals)) > 0
            then array_agg(needed.ordinals order by needed.ordinal) filter (where needed.ordinals <> '{}') end
    from needed
$$;
