-- SQL that a seed or an audit runs where the tables are: the query over what `range` gives of one source (a FROM clause
-- with its condition), and nothing of the others. A row a group: the texts of its keys, how many rows it has, and the
-- texts of what is kept. Columns become what the reader gives: NaN and the infinities are null, a label is its text, a
-- collation the one that the target has, or the default one. As in write_deltas a sum that is not finite is an error of
-- a row, and as in write_row_deltas so is such a key.
create or replace function cdc.write_range(compiled jsonb, source_no integer, range text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
with {inputs}

select
    array[{keys}]::text[] as dimensions,
    {rows} as row_count,
    array[{sums}]::text[] as sums
from (
{query}
) as query
$template$,
        jsonb_build_object(
            'inputs', (
                select string_agg(
                    format(
                        'waltally_source_%s as (select %s%s)', source.ordinal, columns.list,
                        case when source.ordinal = source_no then ' ' || range else ' where false' end
                    ),
                    e',\n' order by source.ordinal
                )
                from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, ordinal)
                cross join lateral (
                    select coalesce(string_agg(
                        format('%s as %I', case
                            when source.ordinal <> source_no or not (own.value ->> 'is_needed')::boolean
                                then format('null::%s', own.value ->> 'type')
                            when own.value ->> 'type' in ('numeric', 'float4', 'float8') then cdc.write_finite(
                                quote_ident(own.value ->> 'name'),
                                format('%I::%s', own.value ->> 'name', own.value ->> 'type')
                            )
                            else format('%I::%s', own.value ->> 'name', own.value ->> 'type')
                        end || coalesce(
                            ' collate ' || (own.value ->> 'collation'), case when own.type in ('text', 'varchar', 'bpchar') then ' collate "default"' else '' end
                        ), own.value ->> 'name'), ', ' order by own.ordinal
                    ), '') as list
                    from jsonb_array_elements(source.value -> 'columns') with ordinality as one (value, ordinal)
                    cross join lateral (select one.value, one.ordinal, rtrim(one.value ->> 'type', '[]') as type) as own
                ) as columns
            ),
            -- Of rows every column tells them apart.
            'keys', coalesce((
                select string_agg(
                    case
                        when compiled ->> 'kind' = 'rows' and one.kind = 'key'
                            then cdc.write_row_key(compiled, own.text)
                        else own.text
                    end, ', ' order by one.ordinal
                )
                from cdc.list_columns(compiled) as one
                cross join lateral (select cdc.as_text(format('query.%I', one.name), one.type) as text) as own
                where one.kind = 'key' or compiled ->> 'kind' = 'rows'
            ), ''),
            'rows', case when compiled ->> 'kind' = 'rows' then '1' else format('query.%I', compiled ->> 'rows') end,
            'sums', case when compiled ->> 'kind' = 'rows' then '1' else (
                select string_agg(format(
                    case value ->> 'type' when 'numeric'
                        then cdc.write_finite(
                            'query.%1$I', 'query.%1$I::text', '(''a sum would be '' || query.%1$I::text)::numeric::text'
                        )
                        else 'query.%I::text'
                    end, value ->> 'name'
                ), ', ' order by ordinal)
                from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
            ) end,
            'query', compiled ->> 'query'
        )
    )
$$;
