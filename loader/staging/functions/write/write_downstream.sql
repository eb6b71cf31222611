-- SQL: the routine of a model over models. step index: make the indexes that it needs. step fill: from its inputs as
-- they are. step add: what rows of one input that changed, before and after, do to it; all other inputs are as they
-- are now. step queue: give that in `before`, as objects, to be added in step catch up, by which it comes in
-- `watched`.
create or replace function cdc.write_downstream(compiled jsonb, routine text, relation text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return cdc.fill(
$template$
create or replace function {routine}(
    step text, input text, former anyarray, present anyarray, watched anycompatiblearray,
    out before anycompatiblearray, out after anycompatiblearray
)
language plpgsql security definer {pins}
-- Few rows meet many: an index finds them, however small the tables were when the plan was made.
set enable_seqscan = off set enable_mergejoin = off{unsorted}
as $routine$
#variable_conflict use_column
declare
    -- The table may have a column of any other name.
    waltally_emptied tid[];
    waltally_least_count numeric;
    waltally_snapshot text;
begin
    if $1 = 'queue' then
        -- Whoever fills the table may have locked it.
        {queue}
        return;
    end if;
    lock table {relation} in row exclusive mode nowait;
    if $1 in ('index', 'fill') then
        {indexes}
    end if;
    if $1 = 'fill' then
        perform set_config(own.name, 'on', true) from unnest('{enable_seqscan,enable_bitmapscan,enable_mergejoin,enable_sort}'::text[]) as own (name);
        {reshape}
        delete from {relation};
        {fill}
        return;
    elsif $1 = 'catch up' then
        if cardinality($5) > 0 then
            {caught_up}
        end if;
        {unused}
    end if;
    {branches}
    delete from {relation} where ctid = any (waltally_emptied){unless_total};
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine,
            'pins', cdc.routine_pins(compiled),
            'relation', relation,
            -- The first row of a group is read from an index, and the others are not.
            'unsorted', case when compiled ? 'order' then ' set enable_sort = off set enable_bitmapscan = off' else '' end,
            'indexes', coalesce((
                select string_agg(format('perform cdc.keep_index(%L);', needed.value), e'\n        ')
                from jsonb_array_elements(cdc.needed_indexes(compiled, relation)) as needed
            ), 'null;'),
            -- Last: nobody reads the table until the transaction ends.
            'unused', coalesce((
                select string_agg(distinct format('perform cdc.drop_unused_indexes(%L);', value ->> 'schema'), e'\n        ')
                from jsonb_array_elements(compiled -> 'inputs')
            ), ''),
            'reshape', cdc.write_reshape(compiled, relation),
            'fill', cdc.write_filled(compiled, relation),
            'caught_up', cdc.write_caught_up(compiled, relation),
            'unless_total', case when (compiled ->> 'is_total')::boolean then ' and false' else '' end,
            'queue', cdc.write_branches(compiled, relation, true),
            'branches', cdc.write_branches(compiled, relation, false)
        )
    );
end
$$;
