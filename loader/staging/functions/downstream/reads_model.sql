-- Whether an expression reads a column of a model, or something that is not known to be of another one.
create or replace function cdc.reads_model(expression jsonb, query jsonb, ctes jsonb, model jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from jsonb_path_query(expression, 'strict $.** ? (@._ == "VAR")') as variable
        where cdc.origin_of(variable, query, ctes) -> 0 = model
    ) or not exists (select from jsonb_path_query(expression, 'strict $.** ? (@._ == "VAR")'))
$$;
