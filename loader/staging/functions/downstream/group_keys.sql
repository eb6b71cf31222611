-- The keys of a roll-up as its select computes them from a row of the model below, in the one spelling that a key
-- has; and by what an index finds them, which is never too long for it: of a text its beginning, which is that of the
-- key too. `sought_key` is this of a row that has the keys; is_never_null where it is a column that never is.
create or replace function cdc.group_keys(compiled jsonb, group_row text default null)
returns table (name text, type text, expression text, sought text, sought_key text, is_never_null boolean, place bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        key.value ->> 'name',
        key.value ->> 'type',
        case when own.is_text then cdc.short_text(own.spelled, own.share) else own.spelled end,
        format(own.sought, own.spelled),
        format(own.sought, format('%s.%I', group_row, key.value ->> 'name')),
        exists (
            select from jsonb_array_elements(compiled #> '{inputs,0,columns}') as one
            where (one.value ->> 'is_never_null')::boolean and quote_ident(one.value ->> 'name') = cdc.in_base(compiled, own.spelled)
        ),
        key.place
    from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, place)
    cross join lateral (
        select
            format(
                case key.value ->> 'type' when 'text' then '(%s)::text' else '%s' end, compiled #>> array['select', 'keys', (key.place - 1)::text]
            ) as spelled,
            key.value ->> 'type' = 'text' as is_text,
            (compiled ->> 'text_share')::integer as share,
            case key.value ->> 'type'
                when 'text' then format('left(%%s, %s)', ((compiled ->> 'text_share')::integer - 33) / 4)
                when 'numeric' then cdc.bounded('%1$s', 'numeric')
                when 'bytea' then 'md5(%s)'
                else '%s'
            end as sought
    ) as own
$$;
