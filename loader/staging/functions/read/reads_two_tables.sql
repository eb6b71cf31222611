-- Whether a condition reads columns of these two models and nothing else, each under the name of its own table.
create or replace function cdc.reads_two_tables(condition jsonb, query jsonb, one jsonb, other jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        jsonb_path_query_array(condition, 'strict $.** ? (@._ == "SUBLINK")') = '[]'
        and coalesce(bool_and(variable.value ->> 'varlevelsup' = '0' and entry.value ->> 'rtekind' = '0'), false)
        and jsonb_agg(to_jsonb(cdc.stub_number(entry.value ->> 'relid'))) <@ jsonb_build_array(one, other)
    from jsonb_path_query(condition, 'strict $.** ? (@._ == "VAR")') as variable (value)
    cross join lateral (select query -> 'rtable' -> ((variable.value ->> 'varno')::integer - 1) as value) as entry
$$;
