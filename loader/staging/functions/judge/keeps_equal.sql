-- What a node of a parse tree makes of one of its parts, `part_path`, which may be one of several equal values:
-- 'identical' whichever it is, 'equal' ones again, null if perhaps neither.
create or replace function cdc.keeps_equal(node cdc.tree_node, part_path text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when node.type in ('TARGETENTRY', 'NULLTEST') then 'identical'
        when node.type in ('COALESCEEXPR', 'MINMAXEXPR', 'RELABELTYPE', 'ARRAYEXPR')
            or node.type = 'CASEEXPR' and part_path !~ '\.arg$' or node.type = 'CASEWHEN' and part_path ~ '\.result$' then 'equal'
        -- A comparison by the type's own order.
        when exists (
            select from pg_operator as o
            inner join pg_amop as of_class on of_class.amopopr in (o.oid, o.oprnegate) and of_class.amopmethod in (403, 405)
            where o.oid = (node.fields ->> 'opno')::oid
        ) then case node.type when 'NULLIFEXPR' then 'equal' else 'identical' end
        -- Their results depend on no trailing blanks, and the value of these on no trailing zeros, as a quotient does.
        else (
            select case when p.prorettype in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'text'::regtype) then 'identical' else 'equal' end
            from pg_proc as p
            where p.oid = coalesce(node.fields ->> 'funcid', node.fields ->> 'opfuncid')::oid
                and p.pronamespace = 'pg_catalog'::regnamespace
                and format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) ~ (
                    '^((numeric_(add|sub|mul|mod|abs|uminus|uplus)|abs|mod|round|trunc|ceil|ceiling|floor|sign|trim_scale|numeric|int[248]|float[48])'
                    '\(numeric(, (numeric|integer))?\)|(text|length|char_length|character_length)\(character\)|float[48](pl|mi|mul|abs|um|up)\(|(abs|round|trunc|ceil|ceiling|floor|int[248]|float[48])\((real|double precision)\))'
                )
        )
    end
$$;
