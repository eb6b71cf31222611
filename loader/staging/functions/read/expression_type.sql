-- The type of an expression in a parse tree, also where it is that of something within it.
create or replace function cdc.expression_type(tree jsonb) returns oid
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
    inner_type oid;
begin
    if tree ->> '_' in ('COLLATEEXPR', 'NAMEDARGEXPR') then
        return cdc.expression_type(tree -> 'arg');
    elsif tree ->> '_' <> 'SUBLINK' then
        return cdc.node_type(tree);
    -- EXISTS, ALL and ANY.
    elsif tree ->> 'subLinkType' not in ('4', '6') then
        return 'boolean'::regtype;
    end if;
    inner_type := cdc.expression_type(tree #> '{subselect,targetList,0,expr}');
    return case
        when tree ->> 'subLinkType' = '6'
            then coalesce((select nullif(t.typarray, 0) from pg_type as t where t.oid = inner_type), inner_type)
        else inner_type
    end;
end
$$;
