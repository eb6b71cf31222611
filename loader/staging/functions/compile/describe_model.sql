-- What a compiled model is and how it is kept, in words: "fact over models: lines x orders, found by order_id".
create or replace function cdc.describe_model(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when compiled ->> 'kind' = 'changes'
            then format('changes of %s, kept for %s', compiled #>> '{inputs,0,name}', compiled ->> 'changes')
        when not compiled ? 'query' then compiled ->> 'kind'
        when compiled ->> 'kind' = 'roll-up' then 'roll-up of ' || (compiled #>> '{inputs,0,name}')
        when compiled ? 'inputs' then 'fact over models: ' || cdc.describe_joins(compiled)
        else format(
            '%s of %s', compiled ->> 'kind',
            (select string_agg(value ->> 'table', ', ' order by ordinal) from jsonb_array_elements(compiled -> 'sources') with ordinality as one (value, ordinal))
        )
    end
$$;
