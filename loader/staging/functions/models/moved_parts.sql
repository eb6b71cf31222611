-- In which parts add_moved takes what a Spark job has read: which attempts together, and which of their rows. What
-- several tasks have written is one part, up to the size of a slice. Every TRUNCATE comes first: the job left out what
-- came before them. The slices are in no order: where there are several, new rows are added before old ones are taken
-- away, or a number of rows could fall below zero on the way.
create or replace function cdc.moved_parts(plan cdc.model_plan, batch cdc.computed_batch)
returns table (phase text, attempts bigint[])
language sql stable set search_path = pg_catalog, pg_temp as $$
    with numbered as (
        select computed.attempt, div(sum(count(*)) over (order by computed.attempt) - count(*), cdc.batch_size()) as slice_no
        from cdc.computed_change as computed
        where
            computed.slot_name = plan.slot_name
            and computed.relation = plan.relation
            and computed.batch = moved_parts.batch.id
            and computed.attempt = any (moved_parts.batch.attempts)
        group by computed.attempt
    ),

    slices as (
        select array_agg(numbered.attempt) as attempts, count(*) over () > 1 as is_one_of_several
        from numbered
        group by numbered.slice_no
    ),

    parts as (
        select 'truncates' as phase, moved_parts.batch.attempts as attempts, 0 as ordinal
        union all
        select phases.phase, slices.attempts, phases.ordinal
        from slices
        cross join lateral unnest(case when slices.is_one_of_several then '{new rows,old rows}'::text[] else '{all}' end)
            with ordinality as phases (phase, ordinal)
    )

    select parts.phase, parts.attempts from parts
    order by parts.ordinal
$$;
