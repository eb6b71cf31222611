-- SQL: write down the ignored deletes of a batch, `good`, group by group: a new baseline and an audit know of them.
-- Null for a fact that ignores none. `deltas` is the function of write_deltas.
create or replace function cdc.write_ignored(compiled jsonb, deltas text, model_key text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$-- The ignored deletes, by which a new baseline and an audit know what is counted and gone.
if $1 in ('add', 'refill') then
    insert into cdc.ignored_delete (slot_name, relation, part, commit_lsn, dimensions, measures)
    select
        $2, {model_key}, waltally_tables[delta.waltally_source_no],
        delta.waltally_ignored_lsn,
        array[{keys}]::text[],
        array[{state_columns}]
    from {deltas}(array(
        select change from unnest(good) as change where change.action = 'D' and change.table_no in ({table_nos})
    ), $4, $5) as delta
    where delta.waltally_ignored_lsn is not null;
end if;$template$,
        jsonb_build_object(
            'model_key', quote_literal(model_key),
            'keys', (
                select coalesce(cdc.join_lines(array_agg(cdc.as_text(format('delta.%I', value ->> 'name'), value ->> 'type') order by ordinal)), '')
                from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
            ),
            'state_columns', cdc.write_names(compiled -> 'state_columns', '-delta.%I'),
            'deltas', deltas,
            'table_nos', string_agg(format('($4)[%s]', ordinal), ', ')
        )
    )
    from jsonb_array_elements(compiled -> 'sources') with ordinality as one (value, ordinal)
    where (value ->> 'keeps_deleted')::boolean
    having count(*) > 0
$$;
