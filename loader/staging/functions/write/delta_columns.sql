-- The columns of what write_model_deltas gives: keys and state columns, with numerics for what is added up.
create or replace function cdc.delta_columns(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select (compiled -> 'keys') || (
        select jsonb_agg(
            value || case when cdc.is_anew(compiled, value ->> 'name') then '{}' else '{"type": "numeric"}' end::jsonb order by ordinal
        )
        from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
    )
$$;
