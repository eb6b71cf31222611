-- SQL: a query that gives a model's keys and these columns, with its keys in one spelling: numerics lose trailing
-- zeros, texts what does not fit an index. Rows have the key of their table, of which one value has one row. A source's
-- server evaluates it too, which has no function of ours: a cast that fails refuses what is too long.
create or replace function cdc.spell_keys(compiled jsonb, types jsonb, query text, kept jsonb)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        e'select %s\nfrom (\n%s\n) as query',
        string_agg(
            case
                when is_key and cdc.is_text(type) then format(e'\n    %s as %I', cdc.short_text(format('query.%I::text', name), (compiled ->> 'text_share')::integer), name)
                when is_key and type in ('numeric', 'bytea') and compiled ->> 'kind' <> 'rows' then format(
                    e'\n    case when octet_length(query.%1$I::text) > %2$s then (''a value to group by has '' || length(query.%1$I::text)::text'
                    ' || '' characters, too many for an index'')::numeric::text::%3$s else %4$s end as %1$I',
                    name, compiled ->> 'long_share', type, format(case type when 'numeric' then 'trim_scale(query.%I)' else 'query.%I' end, name)
                )
                else format('query.%I', name)
            end,
            ', ' order by place
        ),
        query
    )
    from (
        select value ->> 'name' as name, types ->> (value ->> 'name') as type, place <= jsonb_array_length(compiled -> 'keys') as is_key, place
        from jsonb_array_elements((compiled -> 'keys') || kept) with ordinality as one (value, place)
    ) as columns
$$;
