-- SQL: by group and value of a count(distinct) how many rows with it came or went, and how many there are now:
-- counted no further than the answer needs.
create or replace function cdc.write_value_counts(compiled jsonb, call text, value_type text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$select
    waltally_came.*,
    (
        select count(*) from (
            select from ({present}) as present limit greatest(waltally_came.waltally_change, 0) + 1
        ) as counted
    ) as waltally_now
from (
    select {keys}waltally_value, sum(signs.waltally_sign) as waltally_change
    from (select distinct waltally_sign from changed) as signs
    cross join lateral ({came}) as waltally_came
    group by {keys}waltally_value
    having sum(signs.waltally_sign) <> 0
) as waltally_came$template$,
        jsonb_build_object(
            'keys', cdc.write_names(compiled -> 'keys', '%I, ', ''),
            'present', cdc.write_group(
                compiled, '1', 'waltally_came', array[
                    parts.condition, format('(%s) = waltally_came.waltally_value', parts.arguments),
                    cdc.bounded(parts.arguments, value_type) || ' = ' || cdc.bounded('waltally_came.waltally_value', value_type)
                ]
            ),
            'came', cdc.write_group(
                compiled,
                coalesce((
                    select string_agg(format('%s as %I, ', key.expression, key.name), '' order by key.ordinal) from cdc.group_keys(compiled) as key
                ), '') || format('%s as waltally_value', parts.arguments),
                null, array[parts.condition, format('(%s) is not null', parts.arguments)],
                format('select %s from changed where waltally_sign = signs.waltally_sign', cdc.changed_columns(compiled -> 'inputs' -> 0))
            )
        )
    )
    from cdc.split_call(call) as parts
$$;
