-- Whether an aggregate gives the same in whatever order its rows come. docs/models.md has the list.
create or replace function cdc.is_orderless(nodes cdc.tree_node[], path text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    call cdc.tree_node;
    aggregate record;
    ordered cdc.tree_node[];
    is_distinct boolean;
begin
    select one.* into call from unnest(nodes) as one where one.path = is_orderless.path;
    select p.proname as name, p.pronamespace = 'pg_catalog'::regnamespace as is_built_in, p.proargtypes[0] as type_oid, a.aggkind as kind
    into aggregate
    from pg_proc as p inner join pg_aggregate as a on a.aggfnoid = p.oid where p.oid = (call.fields ->> 'aggfnoid')::oid;
    ordered := array(select one from unnest(nodes) as one where one.parent = is_orderless.path and one.path ~ '\.aggorder\.[0-9]+$' order by one.path);
    is_distinct := exists (select from unnest(nodes) as one where one.parent = is_orderless.path and one.path ~ '\.aggdistinct\.[0-9]+$');
    return aggregate.is_built_in and case
        when aggregate.kind = 'o' then aggregate.name in ('percentile_disc', 'percentile_cont', 'mode')
        when cdc.is_sum((call.fields ->> 'aggfnoid')::oid) then ordered = '{}'
        when aggregate.name in ('min', 'max', 'bool_and', 'bool_or', 'every', 'bit_and', 'bit_or', 'bit_xor') then ordered = '{}'
        -- Of numerics PostgreSQL computes them from exact sums.
        when aggregate.name ~ '^(stddev|stddev_pop|stddev_samp|variance|var_pop|var_samp)$'
            then ordered = '{}' and aggregate.type_oid in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'numeric'::regtype)
        -- Equal values look alike, and come first in the order.
        when aggregate.name in ('array_agg', 'string_agg') then
            aggregate.name = 'array_agg' and cdc.is_weighted(nodes, is_orderless.path)
            or (is_distinct or ordered <> '{}' and exists (
                select from unnest(nodes) as argument
                where argument.path = is_orderless.path || '.args.1' and argument.fields ->> 'ressortgroupref' = ordered[1].fields ->> 'tleSortGroupRef'
            ))
            -- Of these types two values that are equal are the same, to the last character.
            and (
                select cdc.node_type(value.fields) = any (
                    '{boolean,smallint,integer,bigint,text,varchar,uuid,date,timestamp,timestamptz,bytea}'::regtype[]
                )
                from unnest(nodes) as value
                where value.path = is_orderless.path || '.args.1.expr'
            )
            -- One separator.
            and not exists (
                select from unnest(nodes) as separator
                where aggregate.name = 'string_agg' and separator.path = is_orderless.path || '.args.2.expr' and separator.type <> 'CONST'
            )
        else false
    end;
end
$$;
