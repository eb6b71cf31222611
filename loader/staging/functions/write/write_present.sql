-- SQL: the rows of a roll-up's query that the groups `touched` have now. Where an index gives the rows of a group in
-- their order, no more than its first one is read: the group's own columns are constants there, by which nothing is
-- sorted.
create or replace function cdc.write_present(compiled jsonb) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select format(
        case when compiled ? 'order'
            then e'select own.* from touched cross join lateral (\nwith %s\n\n%s\nlimit 1\n) as own'
            else e'with %s\n\n%s' end,
        cdc.write_inputs(compiled, jsonb_build_object('1', format(
            case when compiled ? 'order' then 'select %s from %s as stored where %s'
                else 'select %s from touched inner join %s as stored on %s' end,
            coalesce(string_agg(format(
                case when compiled ? 'order' and compiled -> 'group' @> jsonb_build_array(jsonb_build_object('column', value -> 'name'))
                    then 'touched.%I' else 'stored.%I' end, value ->> 'name'
            ), ', ' order by ordinal), '1 as waltally_nothing'),
            cdc.input_relation(compiled, 1),
            cdc.match_group(compiled, 'column')
        ))),
        compiled ->> 'query'
    )
    from jsonb_array_elements(compiled #> '{inputs,0,columns}') with ordinality as one (value, ordinal)
$$;
