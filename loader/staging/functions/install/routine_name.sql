-- A function of a model, as SQL writes its name. Another query has others, because those of a former one stay until the
-- baseline of the new one is there. Two long names may begin alike.
create or replace function cdc.routine_name(model_schema text, model_table text, does text, compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        '%I.%I', model_schema,
        case when octet_length(model_table) > 44 then md5(model_table) else model_table end
        || format('__%s_%s', does, left(md5(compiled::text), 8))
    )
$$;
