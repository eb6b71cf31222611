-- SQL that compares what a model over models keeps with what its query gives over its inputs, in a row: how many
-- groups there are, how many values differ, and the first `most` of these as [keys, column, in the model, by the
-- query]. Values are compared as their types do, of floats so many digits as do not depend on the order of rows.
create or replace function cdc.write_difference(compiled jsonb, relation text, most integer) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    with columns as (
        select
            ordinal,
            value ->> 'name' as name,
            ordinal <= jsonb_array_length(compiled -> 'keys') as is_key,
            format(
                case
                    when ordinal <= jsonb_array_length(compiled -> 'keys') then '%I'
                    when value ->> 'type' in ('real', 'double precision') and value ? 'again'
                        then '(case when %1$I = 0 then ''0'' when abs(%1$I) < ''Infinity'' then to_char(%1$I, ''9.99999999EEEE'') else %1$I::text end)'
                    -- These have no = of their own.
                    when value ->> 'type' ~ '^(json|xml|point|line|lseg|box|path|polygon|circle)(\[\])?$' then '%I::text'
                    -- Equal values, and the weights of equal ones, come in any order.
                    when value ->> 'type' like '%[]' then
                        '(case when %1$I is not null then array(select value from unnest(%1$I) as one (value) order by value) end)'
                    else '%I'
                end, value ->> 'name'
            ) as compared
        from jsonb_array_elements((compiled -> 'keys') || (compiled -> 'state_columns')) with ordinality as one (value, ordinal)
    )

    select cdc.fill(
$template$
with together as (
    select true as is_own, {columns} from {relation}
    union all
    select false, {columns} from (
        with {inputs}

        {query}
    ) as query
),

groups as materialized (
    select array[{keys}]::text[] as keys, {sides}
    from together
    {grouped}
),

differing as (
    select groups.keys, value.name, value.own, value.counted
    from groups
    cross join lateral (values {values}) as value (name, differs, own, counted)
    where value.differs
)

select
    (select count(*) from groups),
    (select count(*) from differing),
    (
        select coalesce(jsonb_agg(jsonb_build_array(keys, name, own, counted)), '[]')
        from (select * from differing order by keys, name limit {most}) as first
    )
$template$,
        jsonb_build_object(
            'relation', relation,
            'inputs', cdc.write_inputs(compiled),
            'query', compiled ->> 'query',
            'most', most,
            'columns', string_agg(format('%s as t%s', compared, ordinal), ', ' order by ordinal),
            'keys', coalesce(string_agg(format('t%s::text', ordinal), ', ' order by ordinal) filter (where is_key), ''),
            'grouped', coalesce('group by ' || string_agg(format('t%s', ordinal), ', ' order by ordinal) filter (where is_key), ''),
            'sides', concat_ws(', ', 'count(*) filter (where is_own) as own_rows, count(*) filter (where not is_own) as counted_rows', string_agg(format(
                'max(t%1$s::text) filter (where is_own) as own_%1$s, max(t%1$s::text) filter (where not is_own) as counted_%1$s, '
                'count(distinct t%1$s) > 1 or count(t%1$s) = 1 as differs_%1$s', ordinal
            ), ', ' order by ordinal) filter (where not is_key)),
            'values', concat_ws(
                ', ', case when compiled ? 'group' then '(''rows'', own_rows <> counted_rows, own_rows::text, counted_rows::text)' end,
                string_agg(format('(%L, differs_%s, own_%s, counted_%s)', name, ordinal, ordinal, ordinal), ', ' order by ordinal) filter (where not is_key)
            )
        )
    )
    from columns
$$;
