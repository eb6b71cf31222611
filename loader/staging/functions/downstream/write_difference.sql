-- SQL that compares what a model over models keeps with what its query gives over its inputs, in a row: how many
-- groups there are, how many values differ, and the first `most` of these as [keys, column, in the model, by the
-- query]. Numbers are compared by their value, all else by its text.
create or replace function cdc.write_difference(compiled jsonb, relation text, most integer) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with columns as (
        select
            place,
            value ->> 'name' as name,
            place <= jsonb_array_length(compiled -> 'keys') as is_key,
            case
                when value ->> 'type' = 'numeric' then 'trim_scale(%I)::text'
                -- Equal values, and the weights of equal ones, come in any order.
                when value ->> 'type' like '%[]' then format(
                    'case when %%1$I is not null then array(select %s::text collate "C" from unnest(%%1$I) as one (value) order by 1)::text end',
                    case value ->> 'type' when 'numeric[]' then 'trim_scale(value)' else 'value' end
                )
                else '%I::text'
            end as spelled
        from jsonb_array_elements((compiled -> 'keys') || (compiled -> 'kept')) with ordinality as one (value, place)
    )

    select cdc.fill(
$template$
with together as (
    select true as is_own, {texts} from {relation}
    union all
    select false, {texts} from (
        with {inputs}

{query}
    ) as query
),

groups as materialized (
    select array[{keys}]::text[] as keys, {sides}
    from together
    {grouped}
),

differing as (
    select groups.keys, value.*
    from groups
    cross join lateral (values {values}) as value (name, own, counted)
    where value.own is distinct from value.counted
)

select
    (select count(*) from groups),
    (select count(*) from differing),
    (
        select coalesce(jsonb_agg(jsonb_build_array(keys, name, own, counted)), '[]')
        from (select * from differing order by keys, name limit {most}) as first
    )
$template$,
        jsonb_build_object(
            'relation', relation,
            'inputs', cdc.write_inputs(compiled),
            'query', compiled ->> 'query',
            'most', most,
            'texts', string_agg(format('%s collate "C" as t%s', format(spelled, name), place), ', ' order by place),
            'keys', coalesce(string_agg('t' || place, ', ' order by place) filter (where is_key), ''),
            'grouped', coalesce('group by ' || string_agg('t' || place, ', ' order by place) filter (where is_key), ''),
            'sides', string_agg(
                format('min(t%1$s) filter (where is_own) as own_%1$s, min(t%1$s) filter (where not is_own) as counted_%1$s', place), ', ' order by place
            ) filter (where not is_key),
            'values', string_agg(format('(%L, own_%s, counted_%s)', name, place, place), ', ' order by place) filter (where not is_key)
        )
    )
    from columns
$$;
