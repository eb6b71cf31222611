-- SQL: the routine of a model over models. step fill: from its inputs as they are. step add: what rows of one input
-- that changed, before and after, do to it; all other inputs are as they are now.
create or replace function cdc.write_downstream(compiled jsonb, routine text, relation text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    sums constant text[] := array(
        select value ->> 'name' from jsonb_array_elements(compiled -> 'kept') where value ->> 'type' = 'numeric' and not value ? 'again'
    );
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
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 = 'fill' then
        perform set_config(own.name, 'on', true) from unnest('{enable_seqscan,enable_bitmapscan,enable_mergejoin,enable_sort}'::text[]) as own (name);
        {indexes}{reshape}
        delete from {relation};
        {fill}
        {unused}
        return;
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
                select string_agg(format(e'perform cdc.keep_index(%L);\n        ', needed.value), '')
                from jsonb_array_elements(cdc.needed_indexes(compiled, relation)) as needed
            ), ''),
            -- Last: nobody reads the table until the transaction ends.
            'unused', coalesce((
                select string_agg(distinct format('perform cdc.drop_unused_indexes(%L);', value ->> 'schema'), e'\n        ')
                from jsonb_array_elements(compiled -> 'inputs')
            ), ''),
            'reshape', cdc.write_reshape(compiled, relation),
            'fill', cdc.write_long(compiled, relation, format(
                e'insert into %s (%s)\n        select %s\n        from (\n            with %s\n\n%s\n        ) as query;', relation,
                (select string_agg(quote_ident(one.name), ', ' order by one.place) from cdc.list_columns(compiled) as one where one.kind <> 'derived'),
                (
                    select string_agg(
                        case when one.kind = 'id' then cdc.write_id(compiled, 'query')
                        when one.name = any (sums) then format('cdc.finite(query.%I)', one.name)
                        else cdc.write_whole(format('query.%I', one.name), one.exact, relation) end, ', ' order by one.place
                    )
                    from cdc.list_columns(compiled) as one where one.kind <> 'derived'
                ),
                cdc.write_inputs(compiled),
                compiled ->> 'query'
            )),
            'unless_total', case when (compiled ->> 'is_total')::boolean then ' and false' else '' end,
            'branches', (
                select string_agg(format(
                    e'if $2 = %L then\n        %s\n    end if;', own.model, cdc.write_long(compiled, relation, case
                        when compiled ? 'group' then cdc.write_replaced(compiled, own.model, relation, '$5 is not null')
                        else cdc.write_merge(compiled, relation, cdc.write_delta(compiled, own.model), '$5 is not null') end)
                ), e'\n    ' order by own.model)
                from (select distinct value ->> 'model' as model from jsonb_array_elements(compiled -> 'inputs')) as own
            )
        )
    );
end
$$;
