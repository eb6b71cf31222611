-- `select * from final`: the query that a trivial outer select hands up, with its path among the nodes, as steps to it:
-- the name of a CTE, or null for a sub-select, and which of its columns the outer select has, in what order and under
-- which names.
create or replace function cdc.unwrap_query(
    tree jsonb, out inner_tree jsonb, out top_path text, out steps jsonb, out names text[], out numbers integer[]
)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    -- The queries around the inner one, the outermost first, and itself.
    trees jsonb[] := array[tree];
    paths text[] := array['q'];
    -- How to get from each to the next one.
    ways text[] := array[]::text[];
    depth integer;
    entry jsonb;
    cte record;
    numbers_before integer[];
begin
    inner_tree := tree;
    top_path := 'q';
    select
        array_agg(target.value ->> 'resname' order by target.ordinal),
        array_agg(target.ordinal order by target.ordinal)
    into names, numbers
    from jsonb_array_elements(tree -> 'targetList') with ordinality as target (value, ordinal)
    where target.value ->> 'resjunk' = 'false';
    loop
        exit when
            inner_tree ->> 'hasAggs' = 'true' or inner_tree -> 'groupClause' <> 'null'
            or inner_tree -> 'setOperations' <> 'null' or inner_tree -> 'jointree' -> 'quals' <> 'null'
            or inner_tree -> 'distinctClause' <> 'null' or inner_tree -> 'limitCount' <> 'null'
            or coalesce(jsonb_array_length(nullif(inner_tree -> 'jointree' -> 'fromlist', 'null')), 0) <> 1
            or inner_tree #>> '{jointree,fromlist,0,_}' <> 'RANGETBLREF';
        entry := inner_tree -> 'rtable' -> ((inner_tree #>> '{jointree,fromlist,0,rtindex}')::integer - 1);
        exit when entry ->> 'rtekind' not in ('1', '6')
            or exists (
                select from jsonb_array_elements(inner_tree -> 'targetList') as target
                where target #>> '{expr,_}' <> 'VAR' or target ->> 'resjunk' = 'true'
            );
        depth := cardinality(trees);
        if entry ->> 'rtekind' = '6' then
            -- A query around may have it: then what is between is left out.
            depth := depth - (entry ->> 'ctelevelsup')::integer;
            select own.value, own.ordinal into cte
            from jsonb_array_elements(trees[depth] -> 'cteList') with ordinality as own (value, ordinal)
            where own.value -> 'ctename' = entry -> 'ctename';
            exit when cte.value -> 'aliascolnames' <> 'null';
            inner_tree := cte.value -> 'ctequery';
            top_path := format('%s.cteList.%s.ctequery', paths[depth], cte.ordinal);
        else
            exit when entry #> '{alias,colnames}' <> 'null';
            inner_tree := entry -> 'subquery';
            top_path := format('%s.rtable.%s.subquery', top_path, trees[depth] #>> '{jointree,fromlist,0,rtindex}');
        end if;
        numbers_before := numbers;
        numbers := array(
            select (trees[cardinality(trees)] -> 'targetList' -> (one.number - 1) #>> '{expr,varattno}')::integer
            from unnest(numbers_before) with ordinality as one (number, ordinal)
            order by one.ordinal
        );
        ways := array_append(ways[:depth - 1], entry ->> 'ctename');
        trees := array_append(trees[:depth], inner_tree);
        paths := array_append(paths[:depth], top_path);
    end loop;
    steps := to_jsonb(ways);
end
$$;
