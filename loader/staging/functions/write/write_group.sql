-- SQL: a query over the rows that a group of a roll-up has in the model below: `selected` of those that meet the
-- `conditions`. `group_row` has the keys.
create or replace function cdc.write_group(
    compiled jsonb, selected text, group_row text, conditions text[], input text default null
) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select format(
        'with %s select * from (%s %s %s where %s%s) as own',
        cdc.write_inputs(compiled, case when input is null then '{}' else jsonb_build_object('1', input) end),
        compiled #>> '{select,before}', selected, compiled #>> '{select,from}',
        coalesce((
            select string_agg(condition, ' and ')
            from (
                select format('(%s)', condition) as condition
                from unnest(conditions || (compiled #>> '{select,where}')) as condition
                where condition is not null
                union all
                select own.condition
                from cdc.group_keys(compiled, group_row) as key
                cross join lateral (
                    select format('%s = %s', sides.here, sides.there) as condition
                    from unnest(
                        cdc.null_safe(key.sought, key.type, key.is_never_null), cdc.null_safe(key.sought_key, key.type, key.is_never_null)
                    ) as sides (here, there)
                    union all
                    select format('%s is not distinct from %s.%I', key.expression, group_row, key.name) where not cdc.is_short(key.type)
                ) as own
                where group_row is not null
            ) as demanded
        ), 'true'),
        compiled #>> '{select,after}'
    )
$$;
