-- SQL: the routine that applies a batch to a fact; cdc.apply calls it. `relation`, `listed` (rejected_changes) and
-- `deltas` (the function of write_deltas) are as SQL writes their names.
--
-- step        rebuild: start from the baseline. add: add changes; `add plain` where none is a TRUNCATE or a delete.
--             refill: the same during a rebuild, whose baseline was taken without `truncated` tables. list: list what
--             could not be counted, change by change.
-- table_nos   of each source, the reader's number of its table
-- places      of each source, where a change has the values of its columns
-- watched     null where no model reads this one; then before and after, its changed rows, stay null
--
-- All groups are added at once. Where that fails, find_cause takes bad rows out of `good`, and they are added again.
-- Where no row is bad, a total is: the groups are added one after the other to name the one at fault, and the model
-- fails.
create or replace function cdc.write_fact(
    compiled jsonb, routine text, deltas text, relation text, listed text, model_key text, model_name text
) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    tables constant text := format(
        '%L::text[]', array(select jsonb_array_elements_text(jsonb_path_query_array(compiled, '$.sources[*].table')))
    );
    group_text constant text := format('row(%s)::text', cdc.write_names(compiled -> 'keys', 'changed.%I'));
begin
    return cdc.fill(
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
    messages text[];
    -- The table may have a column of any other name.
    waltally_emptied tid[];
    waltally_least_count numeric;
    waltally_groups text[];
    waltally_group text;
    waltally_said text;
    waltally_state text;
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 = 'rebuild' then
        {reshape}
        delete from {relation};
        perform cdc.list_baseline({listed_name}, {model_key}, $2, {model_name});
        {baseline}
        return;
    end if;

    -- What `reject` gives is not among them. Changes that look alike are one here, so how far they go is all that is
    -- kept of it; `list` names each.
    good := cdc.own_changes($3, $4, $5);
    select max(change.last_lsn), max(change.last_lsn) filter (where cdc.is_lost(change))
    into rejected_lsn, lost_lsn
    from unnest(cdc.reject($3, {needs}, $4, $5)) as change;
    if $1 <> 'list' then
        if $1 <> 'add plain' then
            {truncates}
        end if;
        loop
            begin
                {merge_changes}
                {write_down}
                exit when waltally_group is null;
            exception
                when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
                    waltally_said := sqlerrm;
                    waltally_state := sqlstate;
                    select * into good, bad, messages, rejected_lsn, waltally_groups from cdc.find_cause(
                        sqlerrm, sqlstate, {deltas_name}, {group_name}, waltally_group, $4, $5, good, bad, messages, rejected_lsn
                    );
            end;
            continue when waltally_groups is null;
{room}            -- One group after the other: the first that fails is named.
            waltally_group := waltally_groups[1];
            waltally_groups := waltally_groups[2:];
            if waltally_group is null then
                raise exception 'the totals of several groups do not fit: %', waltally_said using errcode = '22003';
            end if;
        end loop;
        delete from {relation} where ctid = any (waltally_emptied){unless_total};
        return;
    end if;

    select * into good, bad, messages from cdc.find_bad_images({deltas_name}, good, $4, $5);
    bad := cdc.name_bad_rows(bad, messages) || cdc.reject($3, {needs}, $4, $5);
    perform cdc.list_rejected({listed_name}, {model_key}, $2, {tables}, $4, bad);
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine, 'pins', cdc.routine_pins(compiled),
            'relation', relation, 'reshape', cdc.write_reshape(compiled, relation),
            'listed_name', quote_literal(listed),
            'deltas_name', quote_literal(deltas), 'deltas', deltas,
            'group_name', quote_literal(group_text),
            'model_key', quote_literal(model_key), 'model_name', quote_literal(model_name),
            'unless_total', case when (compiled ->> 'is_total')::boolean then ' and false' else '' end,
            'baseline', cdc.write_long(compiled, relation, cdc.write_baseline(compiled, relation, model_name, tables)),
            'tables', tables,
            'needs', quote_literal((
                select jsonb_agg(jsonb_path_query_array(value, '$.columns[*] ? (@.is_needed == true).name') order by place)
                from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, place)
            )::text),
            'merge_changes', cdc.write_merge(
                compiled, relation,
                format(
                    'select * from %s(good, $4, $5) as changed where changed.waltally_archived_lsn is null'
                    ' and (waltally_group is null or %s = waltally_group)', deltas, group_text
                ), '$7 is not null'
            ),
            'truncates', cdc.write_truncates(compiled, relation, model_key),
            'room', coalesce('            continue when waltally_group is null and ' || cdc.write_room(compiled, relation, 'waltally_state') || e';\n', ''),
            'write_down', cdc.write_ignored(compiled, deltas, model_key, tables)
        )
    );
end
$$;
