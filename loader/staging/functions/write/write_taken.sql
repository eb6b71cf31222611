-- SQL: the rows by which write_deltas takes away what the truncated ones among several sources, or that of a total, had
-- added. The parts of all sources but the last are kept; what that one added is the rest.
create or replace function cdc.write_taken(compiled jsonb, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(format(
        e'if $4 = ''add'' and %1$s = any ($7) then\n    return query\n    select %1$s, null::pg_lsn, %2$s\n    from %3$s as stored;\nend if;',
        number,
        cdc.indent(cdc.join_lines(own.keys || array(
            select format(
                case when number < own.count then '-stored.%I::numeric' else '%2$s - coalesce(stored.%3$I, 0)::numeric' end,
                cdc.part_name(number, state.value ->> 'name'), (
                    select coalesce(string_agg(format('stored.%I', cdc.part_name(other, state.value ->> 'name')), ' + '), '0')
                    from generate_series(1, own.count - 1) as other
                ), state.value ->> 'name'
            )
            from jsonb_array_elements(compiled -> 'state_columns') with ordinality as state (value, ordinal) order by state.ordinal
        )), '    '),
        relation
    ), e'\n' order by number), '')
    from (
        select
            jsonb_array_length(compiled -> 'sources') as count,
            array(select format('stored.%I', value ->> 'name') from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal) order by ordinal) as keys
    ) as own
    cross join generate_series(1, own.count) as number
    where own.count > 1 or (compiled ->> 'is_total')::boolean
$$;
