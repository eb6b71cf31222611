-- Whether the value of a node is never 0 (it may be null): nullif(x, 0), a constant, the number of a group's rows,
-- greatest(x, 1), what a CASE has compared with 0, and casts of such integers.
create or replace function cdc.is_never_zero(nodes cdc.tree_node[], node_path text, is_total boolean) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    node cdc.tree_node;
begin
    select one.* into node from unnest(nodes) as one where one.path = node_path;
    if cdc.is_guarded(nodes, node_path) then
        return true;
    end if;
    return case
        when node.type = 'CONST' then node.fields ->> 'constisnull' = 'true' or cdc.constant_sign(node.fields) <> 0
        when node.type = 'AGGREF' then
            not is_total and node.fields ->> 'aggfnoid' = '2803'
            and not exists (select from unnest(nodes) as one where one.path = node_path || '.aggfilter')
        when node.type in ('NULLIFEXPR', 'MINMAXEXPR') then exists (
            select from unnest(nodes) as one
            where
                starts_with(one.path, node_path || '.args.')
                -- A constant, or the cast of one to the other's type.
                and substr(one.path, length(node_path) + 1) ~ '^\.args\.[0-9]+(\.args\.1|\.arg)?$'
                and one.type = 'CONST'
                and case node.type
                    when 'NULLIFEXPR' then cdc.constant_sign(one.fields) = 0 and starts_with(one.path, node_path || '.args.2')
                    else node.fields ->> 'op' = '0' and cdc.constant_sign(one.fields) = 1
                end
        )
        when node.type = 'RELABELTYPE' then cdc.is_never_zero(nodes, node_path || '.arg', is_total)
        when node.type = 'COALESCEEXPR' then not exists (
            select from unnest(nodes) as one
            where one.parent = node_path and one.path ~ '\.args\.[0-9]+$' and not cdc.is_never_zero(nodes, one.path, is_total)
        )
        when node.type = 'FUNCEXPR' and exists (
            select from pg_cast as c
            where
                c.castfunc = (node.fields ->> 'funcid')::oid
                and c.castsource in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
        ) then cdc.is_never_zero(nodes, node_path || '.args.1', is_total)
        else false
    end;
end
$$;
