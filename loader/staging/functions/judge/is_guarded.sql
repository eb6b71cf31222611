-- Whether a part of a CASE is only asked for where a value in it is not 0: `case when x > 0 then y / x end`, and
-- `case when x = 0 then 0 else y / x end`. Of the nodes, `node_path` is the value.
create or replace function cdc.is_guarded(nodes cdc.tree_node[], node_path text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from unnest(nodes) as test
        inner join pg_operator as o on o.oid = (test.fields ->> 'opno')::oid and o.oprnamespace = 'pg_catalog'::regnamespace
        inner join unnest(nodes) as zero
            -- A constant, or the cast of one to the other's type.
            on zero.type = 'CONST' and substr(zero.path, length(test.path) + 1) ~ '^\.args\.2(\.args\.1|\.arg)?$'
        left join unnest(nodes) as parent on parent.path = test.parent
        cross join lateral (
            select case when parent.type = 'BOOLEXPR' then parent.parent else test.parent end as branch
        ) as own
        where
            test.type = 'OPEXPR'
            and cdc.constant_sign(zero.fields) = 0
            and case o.oprname
                when '=' then
                    test.path = own.branch || '.expr'
                    and starts_with(node_path, regexp_replace(own.branch, '\.args\.[0-9]+$', '.defresult'))
                else
                    o.oprname in ('>', '<>')
                    and (test.path = own.branch || '.expr' or parent.fields ->> 'boolop' = 'and' and parent.path = own.branch || '.expr')
                    and starts_with(node_path, own.branch || '.result')
            end
            and exists (select from unnest(nodes) as branch where branch.path = own.branch and branch.type = 'CASEWHEN')
            -- A value is as long to make as the query, so it is for few.
            and case when starts_with(node_path, own.branch || '.') or test.path = own.branch || '.expr' then
                cdc.node_value(nodes, test.path || '.args.1') = cdc.node_value(nodes, node_path)
            end
    );
end
$$;
