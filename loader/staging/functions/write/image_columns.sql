-- The columns of a source as a routine cuts them out of a change: `image.v` holds the texts of what the model needs,
-- at the ordinals that the third argument has for it. What only a CTE hands up is null.
create or replace function cdc.image_columns(source jsonb, source_no integer) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        format(e',\n%s as %I', case
            when not (value ->> 'is_needed')::boolean then format('null::%s', value ->> 'type')
            -- The plugin leaves out what says that hexadecimal digits follow, and prints no NaN, but for domains.
            when value ->> 'type' = 'bytea' then format(e'(''\\x'' || ltrim(image.v[($3)[%s][%s]], ''\\x''))::bytea', source_no, needed_no)
            when value ? 'is_domain' and value ->> 'type' in ('numeric', 'float4', 'float8') then cdc.write_finite(
                format('image.v[($3)[%s][%s]]', source_no, needed_no),
                format('image.v[($3)[%s][%s]]::%s', source_no, needed_no, value ->> 'type')
            )
            when value ->> 'type' in ('int2', 'int4') then format(
                'case when octet_length(%1$s) < %2$s then %1$s else cdc.fitting(%1$s, %3$L, %4$s) end::%5$s',
                format('image.v[($3)[%s][%s]]', source_no, needed_no), case value ->> 'type' when 'int2' then 5 else 10 end,
                value ->> 'name', case value ->> 'type' when 'int2' then 32767 else 2147483647 end, value ->> 'type'
            )
            when value ->> 'type' = 'text' then format('image.v[($3)[%s][%s]]', source_no, needed_no)
            else format('image.v[($3)[%s][%s]]::%s', source_no, needed_no, value ->> 'type')
        end || coalesce(' collate ' || (value ->> 'collation'), ''), value ->> 'name'), '' order by ordinal
    ), '')
    from (
        select one.*, count(*) filter (where (one.value ->> 'is_needed')::boolean) over (order by one.ordinal) as needed_no
        from jsonb_array_elements(source -> 'columns') with ordinality as one (value, ordinal)
    ) as columns
$$;
