-- SQL: the surrogate key of a group, made of its key's values: of numerics that are equal the same.
create or replace function cdc.write_id(compiled jsonb, row_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('md5(row(%s)::text)::uuid', cdc.join_lines(array_agg(
        format(case value ->> 'type' when 'numeric' then 'trim_scale(%I.%I)' else '%I.%I' end, row_name, value ->> 'name')
        order by ordinal
    )))
    from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
$$;
