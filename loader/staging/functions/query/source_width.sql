-- Of how many rows of sources a row of a query is made; where it is not 1, the query is refused. `ctes` are those
-- that it sees, by their names, each with those that it sees itself.
create or replace function cdc.source_width(query jsonb, ctes jsonb default '{}') returns integer
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    own_ctes constant jsonb := cdc.visible_ctes(query, ctes);
    entry jsonb;
    arm_width integer;
    width integer := 0;
begin
    if query -> 'setOperations' <> 'null' then
        for entry in select value from jsonb_array_elements(query -> 'rtable') where value ->> 'rtekind' = '1' loop
            arm_width := cdc.source_width(entry -> 'subquery', own_ctes);
            if arm_width = 0 then
                raise exception 'An arm of UNION ALL reads no table: its rows would be counted in each batch.'
                    using errcode = 'WL003', hint = 'Leave that arm to a view or to the query that reads the model.';
            end if;
            width := greatest(width, arm_width);
        end loop;
        return width;
    end if;
    return cdc.join_width(query -> 'jointree', query -> 'rtable', own_ctes);
end
$$;
