-- The template of write_fact: the routine that applies a batch to a fact.
create or replace function cdc.fact_template() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.routine_head() || $template$
as $routine$
#variable_conflict use_column
declare
    good cdc.change[];
    bad cdc.change[];
    is_judged boolean;
    -- The table may have a column of any other name.
    waltally_tables constant text[] := {tables};
    waltally_truncated integer[] := array[]::integer[];
    waltally_emptied tid[];
    waltally_groups text[];
    waltally_group text;
    waltally_said text;
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 = 'rebuild' then
        {reshape}
        delete from {relation};
        perform cdc.list_baseline({listed},
            {model_key}, $2, {model_name});
    end if;

    -- Changes that look alike are one here: of those that cannot be counted only the newest position is known.
    good := cdc.own_changes($3, $4, $5);
    bad := cdc.reject($3, {needs}, $4, $5);
    select max(change.last_lsn), max(change.last_lsn) filter (where cdc.is_lost(change)) into rejected_lsn, lost_lsn
    from unnest(bad) as change;
    if $1 = 'list' then
        -- Here each is one of its own.
        bad := bad || cdc.new_rows(
            (cdc.find_bad_images({deltas_name}, good, $4, $5)).bad);
        perform cdc.list_rejected({listed},
            {model_key}, $2, waltally_tables, $4, bad);
        return;
    end if;

    -- Of what a truncated table had added nothing stays.
    if $1 in ('add', 'refill') then
        waltally_truncated := cdc.truncated_sources($3, $4);
        is_reset := nullif(waltally_truncated <> '{}', false);
        {truncates}
    end if;

    -- All groups are added at once. Where that fails, find_cause takes bad rows out of `good`, and all are added again.
    -- Where no row is bad, a total is: the groups are added one after the other, and the first that fails is named.
    loop
        begin
            select made.waltally_emptied, made.before, made.after into waltally_emptied, before, after
            from {merge}(
                $1, $2, good, $4, $5, $6, waltally_truncated, waltally_group, case when $1 <> 'rebuild' then $7 end
            ) as made;
            {ignored}
            exit when waltally_group is null;
        exception
            when data_exception or cardinality_violation or feature_not_supported or syntax_error
                or program_limit_exceeded then
                waltally_said := sqlerrm;
                select * into good, rejected_lsn, is_judged, waltally_groups from cdc.find_cause(
                    sqlerrm, sqlstate, {deltas_name},
                    {group_name},
                    waltally_group, $4, $5, {relation_name},
                    {hash},
                    good, rejected_lsn, is_judged
                );
                continue when waltally_groups is null;
        end;
        waltally_group := waltally_groups[1];
        waltally_groups := waltally_groups[2:];
        if waltally_group is null then
            raise exception 'the totals of several groups do not fit: %', waltally_said using errcode = '22003';
        end if;
    end loop;
    {sweep}
end
$routine$
$template$
$$;
