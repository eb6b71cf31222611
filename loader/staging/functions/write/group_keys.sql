-- The keys of a roll-up as its select computes them from a row of the model below; and by what an index finds them,
-- which is never too long for it: of most types a hash. `sought_key` is this of a row that has the keys; is_never_null
-- where it is a column that never is.
create or replace function cdc.group_keys(compiled jsonb, group_row text default null)
returns table (
    name text, type text, expression text, sought text, sought_key text, is_never_null boolean, ordinal bigint
)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        key.value ->> 'name',
        key.value ->> 'type',
        own.spelled,
        cdc.bounded(own.spelled, key.value ->> 'type'),
        cdc.bounded(format('%s.%I', group_row, key.value ->> 'name'), key.value ->> 'type'),
        exists (
            select from jsonb_array_elements(compiled #> '{inputs,0,columns}') as one
            where (one.value ->> 'is_never_null')::boolean and quote_ident(one.value ->> 'name') = cdc.in_base(compiled, own.spelled)
        ),
        key.ordinal
    from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal)
    cross join lateral (select compiled #>> array['select', 'keys', (key.ordinal - 1)::text] as spelled) as own
$$;
