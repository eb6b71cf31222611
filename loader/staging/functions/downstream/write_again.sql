-- SQL: one aggregate of a roll-up over the rows of a group, `touched`. An index finds a minimum or a maximum where the
-- filter is a condition.
create or replace function cdc.write_again(compiled jsonb, call text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when parts.name in ('min', 'max')
            then cdc.write_group(compiled, format('%s(%s)', parts.name, parts.arguments), 'touched', array[parts.condition])
        else cdc.write_group(compiled, call, 'touched', '{}')
    end
    from cdc.split_call(call) as parts
$$;
