-- SQL: the routine that applies a batch to a fact; cdc.apply calls it. `relation`, `listed` (rejected_changes),
-- `deltas` (the function of write_deltas) and `merge` (that of write_fact_merge) are as SQL writes their names.
--
-- step        rebuild: start from the baseline. add: add changes; `add plain` where none is a TRUNCATE or a delete.
--             refill: the same during a rebuild, whose baseline was taken without `truncated` tables. list: list what
--             could not be counted, change by change.
-- table_nos   of each source, the reader's number of its table
-- places      of each source, where a change has the values of its columns
-- watched     null where no model reads this one; then before and after, its changed rows, stay null
create or replace function cdc.write_fact(
    compiled jsonb, routine text, deltas text, merge text, relation text, listed text, model_key text, model_name text
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {routine}(
    step text,
    slot text,
    changes cdc.change[],
    table_nos integer[],
    places integer[],
    truncated text[],
    watched anyarray,
    out rejected_lsn pg_lsn, out is_reset boolean, out lost_lsn pg_lsn, out before anyarray, out after anyarray
)
language plpgsql security definer {pins}
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
        perform cdc.list_baseline({listed}, {model_key}, $2, {model_name});
    end if;

    -- Changes that look alike are one here: of those that cannot be counted only the newest position is known.
    good := cdc.own_changes($3, $4, $5);
    bad := cdc.reject($3, {needs}, $4, $5);
    select max(change.last_lsn), max(change.last_lsn) filter (where cdc.is_lost(change)) into rejected_lsn, lost_lsn
    from unnest(bad) as change;
    if $1 = 'list' then
        -- Here each is one of its own.
        bad := bad || cdc.new_rows((cdc.find_bad_images({deltas_name}, good, $4, $5)).bad);
        perform cdc.list_rejected({listed}, {model_key}, $2, waltally_tables, $4, bad);
        return;
    end if;

    -- Of what a truncated table had added nothing stays.
    if $1 in ('add', 'refill') then
        waltally_truncated := cdc.truncated_sources($3, $4);
        is_reset := nullif(waltally_truncated <> '{}', false);{truncates}
    end if;

    -- All groups are added at once. Where that fails, find_cause takes bad rows out of `good`, and all are added again.
    -- Where no row is bad, a total is: the groups are added one after the other, and the first that fails is named.
    loop
        begin
            select made.waltally_emptied, made.before, made.after into waltally_emptied, before, after
            from {merge}(
                $1, $2, good, $4, $5, $6, waltally_truncated, waltally_group, case when $1 <> 'rebuild' then $7 end
            ) as made;
{ignored}            exit when waltally_group is null;
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
    end loop;{sweep}
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine, 'pins', cdc.routine_pins(compiled), 'merge', merge,
            'relation', relation, 'relation_name', quote_literal(relation), 'reshape', cdc.write_reshape(compiled, relation),
            'listed', quote_literal(listed), 'deltas_name', quote_literal(deltas),
            'group_name', quote_literal(cdc.write_group_text(compiled)), 'hash', quote_nullable(cdc.key_hash(compiled)),
            'model_key', quote_literal(model_key), 'model_name', quote_literal(model_name),
            'tables', cdc.write_tables(compiled),
            'needs', quote_literal((
                select '[' || string_agg(jsonb_path_query_array(value, '$.columns[*] ? (@.is_needed == true).name')::text, e',\n        ' order by place) || ']'
                from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, place)
            )),
            'truncates', concat(
                case when compiled @? '$.sources[*].keeps_deleted ? (@ == true)' then format($forget$
        delete from cdc.archived_delete as old using unnest(waltally_truncated) as own (place)
        where old.slot_name = $2 and old.model_name = %L and old.part = waltally_tables[own.place];$forget$, model_key) end,
                case when compiled -> 'sources' -> 1 is null and not (compiled ->> 'is_total')::boolean then format($empty$
        if $1 = 'add' and is_reset then
            delete from %s;
        end if;$empty$, relation) end
            ),
            'ignored', coalesce(cdc.write_ignored(compiled, deltas, model_key), ''),
            -- Without GROUP BY there is one row, whatever it holds.
            'sweep', case when (compiled ->> 'is_total')::boolean then '' else format(
                e'\n    delete from %s where ctid = any (waltally_emptied);', relation
            ) end
        )
    )
$$;
