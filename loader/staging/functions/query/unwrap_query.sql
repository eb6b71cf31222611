-- `select * from final`: the query that a trivial outer select hands up, with its path among the nodes, as steps to it:
-- {"cte": name}, with null for a sub-select, and which of its columns the outer select has, in what order and under
-- which names.
create or replace function cdc.unwrap_query(
    tree jsonb, out inner_tree jsonb, out top_path text, out steps jsonb, out names text[], out numbers integer[]
)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    entry jsonb;
    next_tree jsonb;
    ctes jsonb := jsonb '{}';
    numbers_before integer[];
begin
    inner_tree := tree;
    top_path := 'q';
    steps := '[]';
    select
        array_agg(target.value ->> 'resname' order by target.place),
        array_agg(target.place order by target.place)
    into names, numbers
    from jsonb_array_elements(tree -> 'targetList') with ordinality as target (value, place)
    where target.value ->> 'resjunk' = 'false';
    loop
        for entry in
            select value || jsonb_build_object('path', format('%s.cteList.%s.ctequery', top_path, place))
            from jsonb_array_elements(nullif(inner_tree -> 'cteList', 'null')) with ordinality as one (value, place)
        loop
            ctes := ctes || jsonb_build_object(entry ->> 'ctename', entry);
        end loop;
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
        if entry ->> 'rtekind' = '6' then
            exit when ctes #> array[entry ->> 'ctename', 'aliascolnames'] <> 'null';
            next_tree := ctes #> array[entry ->> 'ctename', 'ctequery'];
            top_path := ctes #>> array[entry ->> 'ctename', 'path'];
            steps := steps || jsonb_build_object('cte', entry ->> 'ctename');
        else
            exit when entry #> '{alias,colnames}' <> 'null';
            next_tree := entry -> 'subquery';
            top_path := format('%s.rtable.%s.subquery', top_path, inner_tree #>> '{jointree,fromlist,0,rtindex}');
            steps := steps || '{"cte": null}';
        end if;
        numbers_before := numbers;
        numbers := array(
            select (inner_tree -> 'targetList' -> (one.number - 1) #>> '{expr,varattno}')::integer
            from unnest(numbers_before) with ordinality as one (number, place)
            order by one.place
        );
        inner_tree := next_tree;
    end loop;
end
$$;
