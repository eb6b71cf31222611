-- SQL: one aggregate of a roll-up over the rows of a group, `waltally_touched`. An index finds a minimum or a maximum
-- where the filter is a condition; of numerics it holds what is near enough to find them.
create or replace function cdc.write_again(compiled jsonb, call text, value_type text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when parts.name not in ('min', 'max') then cdc.write_group(compiled, call, 'waltally_touched', '{}')
        else cdc.write_group(compiled, format('%s(%s)', parts.name, parts.arguments), 'waltally_touched', array[
            parts.condition,
            case when value_type = 'numeric' then format('%s = (%s)', near.value, cdc.write_group(
                compiled, format('%s(%s)', parts.name, near.value), 'waltally_touched', array[parts.condition]
            )) end
        ])
    end
    from cdc.split_call(call) as parts
    cross join lateral (select cdc.bounded(parts.arguments, value_type) as value) as near
$$;
