-- SQL: the function that gives what is added to each group of a fact, or, with `waltally_group`, to that one alone. It
-- has no settings of its own, so the server makes it part of the statement that calls it. Its arguments are those of
-- write_fact_merge without the last, and have no names, because columns may have any. `deltas` is the function of
-- write_deltas.
create or replace function cdc.write_fact_totals(compiled jsonb, totals text, deltas text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {totals}(text, text, cdc.change[], integer[], integer[], text[], integer[], text)
returns table (
    {returns}
)
language sql stable
as $routine$
    {statement}
$routine$
$template$,
        jsonb_build_object(
            'totals', totals,
            'returns', (
                select cdc.join_lines(array_agg(format('%I %s', own.name, own.type) order by own.step, own.ordinal))
                from (
                    select 1 as step, ordinal, value ->> 'name' as name, value ->> 'type' as type
                    from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal)
                    union all
                    select 2, ordinal, value ->> 'name', case value ->> 'type' when 'bigint' then 'bigint' else 'numeric' end
                    from jsonb_array_elements(compiled -> 'state_columns') with ordinality as state (value, ordinal)
                    union all
                    select 3, part.ordinal, part.name, case part.type when 'bigint' then 'bigint' else 'numeric' end
                    from cdc.part_columns(compiled) as part
                ) as own
            ),
            'statement', cdc.write_totals(compiled, format(
                e'select * from %s($3, $4, $5, $1, $2, $6, $7) as changed'
                '\nwhere waltally_ignored_lsn is null\n    and ($8 is null or %s = $8)',
                deltas, cdc.write_group_text(compiled)
            ))
        )
    )
$$;
