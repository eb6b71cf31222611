-- SQL: all functions of a model over tables. `names` has what each is called, as SQL writes it, by what it does.
create or replace function cdc.write_functions(
    compiled jsonb, names jsonb, relation text, listed text, model_key text, model_name text, query text
) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when compiled ->> 'kind' = 'rows' then concat(
            cdc.write_row_deltas(compiled, names ->> 'deltas'), ';',
            cdc.write_rows(compiled, names ->> 'apply', names ->> 'deltas', relation, listed, model_key, model_name)
        )
        else concat(
            cdc.write_deltas(compiled, names ->> 'deltas', relation, model_name, query), ';',
            cdc.write_fact_totals(compiled, names ->> 'totals', names ->> 'deltas'), ';',
            cdc.write_fact_merge(compiled, names ->> 'merge', names ->> 'totals', relation, names ->> 'by_hash'), ';',
            case when cdc.key_hash(compiled) is not null
                then cdc.write_fact_merge(compiled, names ->> 'by_hash', names ->> 'totals', relation, null) end, ';',
            cdc.write_fact(compiled, names ->> 'apply', names ->> 'deltas', names ->> 'merge', relation, listed, model_key, model_name)
        )
    end
$$;
