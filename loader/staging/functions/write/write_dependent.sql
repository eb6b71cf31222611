-- SQL: the routine of a model over models. step index: make the indexes that it needs. step fill: from its inputs as
-- they are. step add: what rows of one input that changed, before and after, do to it; all other inputs are as they
-- are now. step queue: give that in `before`, as objects, to be added in step catch up, by which it comes in
-- `changed_rows`. `deltas` is the function of write_model_deltas.
create or replace function cdc.write_dependent(compiled jsonb, routine text, deltas text, relation text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {routine}(
    step text, input text, former anyarray, present anyarray, changed_rows anycompatiblearray,
    out before anycompatiblearray, out after anycompatiblearray
)
language plpgsql security definer {pins}
-- Few rows meet many: an index finds them, however small the tables were when the plan was made.
set enable_seqscan = off set enable_mergejoin = off{unsorted}
as $routine$
#variable_conflict use_column
declare
    -- The table may have a column of any other name.
    waltally_queued jsonb[];
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
        if $1 = 'fill' then
            perform set_config(own.name, 'on', true)
            from unnest('{enable_seqscan,enable_bitmapscan,enable_mergejoin,enable_sort}'::text[]) as own (name);
            {reshape}
            delete from {relation};
            {fill}
        end if;
        return;
    elsif $1 = 'catch up' then waltally_queued := $5;
    end if;
    {add}
    {sweep}
    if $1 = 'catch up' then
        -- Last: nobody reads the table until the transaction ends.
        {unused}
    end if;
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine, 'pins', cdc.routine_pins(compiled), 'relation', relation,
            -- The first row of a group is read from an index, and the others are not.
            'unsorted', case when compiled ? 'order' then ' set enable_sort = off set enable_bitmapscan = off' else '' end,
            'indexes', coalesce((
                select string_agg(format('perform cdc.keep_index(%L);', needed.value), e'\n')
                from jsonb_array_elements(cdc.needed_indexes(compiled, relation)) as needed
            ), 'null;'),
            'unused', (
                select string_agg(distinct format('perform cdc.drop_unused_indexes(%L);', value ->> 'schema'), e'\n')
                from jsonb_array_elements(compiled -> 'inputs')
            ),
            'reshape', cdc.write_reshape(compiled, relation), 'fill', cdc.write_filled(compiled, relation),
            'queue', case when own.is_read_again
                then cdc.write_queue(own.input -> 'columns' || '{"name": "waltally_sign"}', format('with %s select * from changed', cdc.write_changed(own.input)))
                else cdc.write_queue(cdc.delta_columns(compiled), format('select * from %s($1, $2, $3, $4, null)', deltas))
            end,
            'add', case when compiled ? 'group' then format(
                e'if cardinality(waltally_queued) > 0 then\n    %s\nelsif $1 = ''add'' then\n    %s\nend if;',
                cdc.indent(cdc.write_long(compiled, relation, cdc.write_replaced(compiled, own.model, relation, 'false', true)), '    '),
                cdc.indent(cdc.write_long(compiled, relation, cdc.write_replaced(compiled, own.model, relation, '$5 is not null')), '    ')
            ) else cdc.write_long(compiled, relation, cdc.write_model_merge(compiled, deltas, relation)) end,
            'sweep', case when compiled ? 'group' or (compiled ->> 'is_total')::boolean then ''
                else format('delete from %s where ctid = any (waltally_emptied);', relation) end
        )
    )
    from (
        select
            compiled ->> 'kind' = 'roll-up' or compiled ? 'group' as is_read_again, compiled #>> '{inputs,0,model}' as model,
            cdc.input_columns(compiled, compiled #>> '{inputs,0,model}') as input
    ) as own
$$;
