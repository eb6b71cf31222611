-- SQL: the function that gives what is added to each group of a fact. Of changes, it is the query over their new images
-- less the query over their old ones. Images that look alike are one, with a count; what stands for 5 of them is
-- evaluated with those that stand for 1 and with those that stand for 4, so that the query runs once for each binary
-- digit. Sources are arms of a UNION ALL, so each is evaluated with the others empty. waltally_ignored_lsn is the
-- position of a delete that the model goes on counting. Arguments 4 to 7 are what write_fact_merge has of the step.
-- Columns may have any names, so arguments have none. `text` is the query as it was written.
create or replace function cdc.write_deltas(compiled jsonb, deltas text, relation text, model_name text, text text)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {deltas}(
    cdc.change[], integer[], integer[], text default null, text default null, text[] default null, integer[] default null
)
returns table ({returns})
language plpgsql stable {pins}
as $routine$
{comment}
#variable_conflict use_column
begin
    if $4 = 'rebuild' then
        -- What the seed has counted, but of tables that were truncated since.
        return query
        select
            array_position({tables}, counted.part), null::pg_lsn,
            {baseline}
        from cdc.baseline_group as counted
        where counted.slot_name = $5 and counted.model_name = {model_name}
            and counted.part <> all (coalesce($6, '{}')){zeros};
        return;
    end if;
    {taken}

    return query
    with {images}

    select
        units.source_no, units.ignored_lsn,
        {keys}
        {sums}
    from (
        select distinct weights.source_no, weights.ignored_lsn, weights.sign, 1::bigint << digit as unit
        from (
            {weights}
        ) as weights (source_no, ignored_lsn, sign, change_count)
        cross join generate_series(0, 40) as digit
        where weights.change_count >> digit & 1 = 1
    ) as units
    cross join lateral (
        with {inputs}
        -- The query as PostgreSQL prints it.
        {query}
    ) as query
    group by units.source_no, units.ignored_lsn{grouped};
end
$routine$
$template$,
        jsonb_build_object(
            'deltas', deltas, 'pins', cdc.routine_pins(compiled), 'query', compiled ->> 'query',
            'comment', coalesce('-- ' || regexp_replace(btrim(text, e' \r\n'), '\r\n?|\n', e'\n-- ', 'g'), ''),
            'returns', 'waltally_source_no integer, waltally_ignored_lsn pg_lsn, ' || cdc.write_names(compiled -> 'keys', '%I %s, ', '')
            || cdc.write_names(compiled -> 'state_columns', '%I numeric'),
            'keys', coalesce(own.keys || ',', ''), 'grouped', coalesce(e',\n    ' || own.keys, ''),
            'baseline', concat_ws(e',\n', (
                select cdc.join_lines(array_agg(format('counted.dimensions[%s]::%s', ordinal, value ->> 'type') order by ordinal))
                from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal)
            ), sums.measures),
            -- A total has its row of zeros without any.
            'zeros', case when (compiled ->> 'is_total')::boolean then e'\nunion all\nselect null, null' || sums.zeros else '' end,
            'tables', cdc.write_tables(compiled),
            'model_name', quote_literal(model_name), 'taken', cdc.write_taken(compiled, relation), 'sums', sums.added
        ) || cdc.write_images(compiled)
    )
    from (select nullif(cdc.write_names(compiled -> 'keys', 'query.%I'), '') as keys) as own
    cross join (
        select
            cdc.join_lines(array_agg(format('counted.measures[%s]::numeric', ordinal) order by ordinal)) as measures,
            repeat(', 0::numeric', count(*)::integer) as zeros,
            string_agg(format(
                case value ->> 'type' when 'numeric' then 'cdc.finite(coalesce(sum(query.%I * units.sign * units.unit), 0))'
                else 'coalesce(sum(query.%I * units.sign * units.unit), 0)' end, value ->> 'name'
            ), e',\n' order by ordinal) as added
        from jsonb_array_elements(compiled -> 'state_columns') with ordinality as state (value, ordinal)
    ) as sums
$$;
