-- SQL: what write_merge adds to each column, as a list.
create or replace function cdc.write_sums(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.join_lines(array_agg(form.written order by form.ordinal))
    from (
        select ordinal, format(
            case
                -- There is one of each group; arrays in an array would be one array.
                when cdc.is_anew(compiled, value ->> 'name') and value ->> 'type' like '%[]' then 'max(%I) as %I'
                when cdc.is_anew(compiled, value ->> 'name') then '(array_agg(%I))[1] as %I'
                when value ->> 'type' = 'bigint' then 'sum(%I)::bigint as %I'
                -- Over sources the deltas are finite, see write_deltas.
                when value ->> 'type' = 'numeric' and compiled ? 'inputs' then 'cdc.finite(sum(%I)) as %I'
                else 'sum(%I) as %I'
            end, value ->> 'name', value ->> 'name'
        ) as written
        from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
        union all
        select 10000 + part.ordinal, format(
            'coalesce(sum(%I) filter (where waltally_source_no = %s), 0)%s as %I',
            part.state_name, part.source_no, case part.type when 'bigint' then '::bigint' else '' end, part.name
        )
        from cdc.part_columns(compiled) as part
    ) as form
$$;
