-- SQL: the routine that applies a batch to a rows model; cdc.apply calls it, with the steps of write_fact. `deltas` is
-- the function of write_row_deltas. Without old rows, what cannot be applied is listed at once: only then is known what
-- the model held.
create or replace function cdc.write_rows(
    compiled jsonb, routine text, deltas text, relation text, listed text, model_key text, model_name text
) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    has_old_rows constant boolean := (compiled ->> 'has_old_rows')::boolean;
    table_name constant text := compiled #>> '{sources,0,table}';
    columns constant text[] := array(select format('%I', one.name) from cdc.list_columns(compiled) as one order by one.place);
    keys constant text[] := array(
        select format('%I', value ->> 'name')
        from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, place) order by place
    );
    needs constant jsonb := jsonb_path_query_array(compiled, '$.sources[0].columns[*] ? (@.is_needed == true).name');
    -- What the old row of a change has to have, and a new one that is not an insert's: the rest may be what it was.
    key_nos constant text := cdc.write_key_nos(compiled);
begin
    if (compiled ->> 'needs_old_rows')::boolean and not has_old_rows then
        raise exception 'The primary key of % is deferrable: two rows may have one key for a moment.', table_name
            using errcode = 'WL003', hint = format('Instead: `alter table %s replica identity full;`, then `loader setup`.', table_name);
    end if;
    return cdc.fill(
$template$
create or replace function {routine}(
    step text,
    slot text,
    changes cdc.change[],
    table_nos integer[],
    places integer[],
    truncated text[],
    is_watched boolean
) returns cdc.outcome
language plpgsql security definer {pins}
-- Few rows are searched in a large table, however small it was when the plan was made.
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $routine$
#variable_conflict use_column
declare
    result cdc.outcome;
    remaining cdc.change[];
    bad cdc.change[] := '{}';
    messages text[] := '{}';
    tried record;
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 in ('begin', 'rebuild') then
        {reshape}
        delete from {relation};
        {listing}
        insert into {relation} ({columns})
        select
            {baseline}
        from cdc.baseline_group as counted
        where counted.slot_name = $2 and counted.fact_name = {model_name} and counted.part <> all (coalesce($6, '{}'));
        return result;
    elsif $1 = 'list' and {is_listed} then
        return result;
    end if;

    -- A batch holds a change for other models too, and one that no model can apply.
    remaining := {left_by}(array(
        select change from unnest($3) as change
        where change.table_no = any ($4) and not change.is_cancelled and change.problem is null
            and change.action in ('I', 'U', 'D')
            and (change.missing is null or not cdc.lacks(change, $4, {carried}))
    ){key_nos});
    if $1 = 'list' then
        select * into remaining, bad, messages from cdc.find_bad_images({deltas_name}, remaining, $4, $5);
    else
        {truncates}{fill}loop
            begin
                {merge}
                exit;
            exception
                when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
                    select * into tried from cdc.find_bad_images({deltas_name}, remaining, $4, $5);
                    if tried.bad = '{}' then
                        raise;
                    end if;
                    remaining := tried.good;
                    bad := bad || tried.bad;
                    messages := messages || tried.messages;
            end;
        end loop;
    end if;
    select max(rejected.last_lsn), max(rejected.last_lsn) filter (where rejected.is_lost)
    into result.rejected_lsn, result.lost_lsn
    from (
        select change.last_lsn, false as is_lost from unnest(bad) as change where change.action = 'I'
        union all
        select change.last_lsn, cdc.is_lost(change) from unnest($3) as change
        where (change.table_no = any ($4) or change.table_no is null)
            and (change.problem is not null or change.missing is not null and cdc.lacks(change, $4, {carried}))
    ) as rejected;
    if ($1 = 'list' or {is_listed}) and result.rejected_lsn is not null then
        insert into {listed} (fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload)
        select
            {model_key}, log.slot_name, log.commit_lsn, log.ordinal, log.xid, log.committed_at,
            case when rejected.table_no is not null then {table_name} end, rejected.action, rejected.reason, log.payload
        from (
            select change.table_no, change.action, change.commit_lsn, change.ordinal, messages[place] as reason
            from unnest(bad) with ordinality as change (
                table_no, action, commit_lsn, ordinal, is_cancelled, problem, old_values, new_values, change_count, last_lsn,
                missing, place
            )
            where change.action = 'I'
            union all
            select
                change.table_no, change.action, change.commit_lsn, change.ordinal,
                coalesce(change.problem, cdc.explain_lack(change, {needs}, $4, {carried}))
            from unnest($3) as change
            where (change.table_no = any ($4) or change.table_no is null)
                and (change.problem is not null or change.missing is not null and cdc.lacks(change, $4, {carried}))
        ) as rejected
        inner join cdc.change_log as log
            on log.slot_name = $2 and log.commit_lsn = rejected.commit_lsn and log.ordinal = rejected.ordinal;
    end if;
    return result;
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine,
            'pins', cdc.routine_pins(compiled),
            'relation', relation,
            'reshape', cdc.write_reshape(compiled, relation),
            'listed', listed,
            'listing', cdc.write_listing(listed, model_key, model_name),
            'model_key', quote_literal(model_key),
            'model_name', quote_literal(model_name),
            'table_name', quote_literal(table_name),
            'deltas_name', quote_literal(deltas),
            'columns', array_to_string(columns, ', '),
            'baseline', (
                select string_agg(format('counted.dimensions[%s]::%s', one.place, one.type), e',\n            ' order by one.place)
                from cdc.list_columns(compiled) as one
            ),
            'is_listed', case when has_old_rows then 'false' else 'true' end,
            'left_by', case when has_old_rows then 'cdc.net_rows' else 'cdc.last_rows' end,
            'key_nos', case when has_old_rows then '' else ', ' || key_nos end,
            'carried', case when has_old_rows then '$5' else format('case change.action when ''I'' then $5 else array[%s] end', key_nos) end,
            'needs', case when has_old_rows then format('%L', jsonb_build_array(needs)) else
                format('case change.action when ''I'' then %L else %L end::jsonb', jsonb_build_array(needs), jsonb_build_array(compiled -> 'identity')) end,
            'truncates', cdc.write_truncates(compiled, relation, model_key),
            'fill', case when has_old_rows then '' else cdc.write_fill(compiled, relation, deltas) end,
            'merge', cdc.write_row_merge(compiled, relation, deltas, columns, keys)
        )
    );
end
$$;
