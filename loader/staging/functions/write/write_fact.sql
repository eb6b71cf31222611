-- SQL: the routine that applies a batch to a fact. `relation`, `listed` (rejected_changes), `deltas` (the function of
-- write_deltas) and `merge` (that of write_fact_merge) are as SQL writes their names.
create or replace function cdc.write_fact(
    compiled jsonb, routine text, deltas text, merge text, relation text, listed text, model_key text, model_name text
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
        cdc.fact_template(),
        jsonb_build_object(
            'routine', routine, 'pins', cdc.routine_pins(compiled), 'merge', merge,
            'relation', relation, 'relation_name', quote_literal(relation), 'reshape', cdc.write_reshape(compiled, relation),
            'listed', quote_literal(listed), 'deltas_name', quote_literal(deltas),
            'group_name', quote_literal(cdc.write_group_text(compiled)), 'hash', quote_nullable(cdc.key_hash(compiled)),
            'model_key', quote_literal(model_key), 'model_name', quote_literal(model_name),
            'tables', cdc.write_tables(compiled),
            'needs', quote_literal((
                select '[' || string_agg(jsonb_path_query_array(value, '$.columns[*] ? (@.is_needed == true).name')::text, e',\n        ' order by ordinal) || ']'
                from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, ordinal)
            )),
            'truncates', concat_ws(
                e'\n',
                case when compiled @? '$.sources[*].keeps_deleted ? (@ == true)' then format($forget$delete from cdc.ignored_delete as old using unnest(waltally_truncated) as own (ordinal)
where old.slot_name = $2 and old.relation = %L
    and old.part = waltally_tables[own.ordinal];$forget$, model_key) end,
                case when compiled -> 'sources' -> 1 is null and not (compiled ->> 'is_total')::boolean then format($empty$if $1 = 'add' and is_reset then
    delete from %s;
end if;$empty$, relation) end
            ),
            'ignored', coalesce(cdc.write_ignored(compiled, deltas, model_key), ''),
            -- Without GROUP BY there is one row, whatever it holds.
            'sweep', case when (compiled ->> 'is_total')::boolean then '' else format(
                'delete from %s where ctid = any (waltally_emptied);', relation
            ) end
        )
    )
$$;
