-- SQL: what write_merge looks at of the rows that it has written, as a list.
create or replace function cdc.write_returned(compiled jsonb, returns_rows text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.join_lines(
        array(select format('stored.%I', value ->> 'name') from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal) order by ordinal)
        || array[
            'stored.ctid as waltally_ctid',
            format('stored.%I as waltally_rows', compiled ->> 'rows'),
            -- None of these may fall below zero.
            format('least(%s) as waltally_least', (
                select string_agg(format('stored.%I', value ->> 'name'), ', ')
                from jsonb_array_elements(compiled -> 'state_columns')
                where not value ? 'counted_by' and not cdc.is_anew(compiled, value ->> 'name')
            )),
            format(
                'case when %s%s then stored.* end as waltally_row', returns_rows,
                case when compiled -> 'keys' = '[]' then '' else format(' and stored.%I > 0', compiled ->> 'rows') end
            )
        ]
    )
$$;
