-- SQL: give the rows of `remaining` the large values that no change of the batch has, as the model holds them, and set
-- those apart that the query would give, but that the model does not hold.
create or replace function cdc.write_fill(compiled jsonb, relation text, deltas text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$if exists (select from unnest(remaining) as change where change.missing is not null) then
    remaining := array(
        select
            case when change.missing is null then change else cdc.fill_row(
                change, array(select unnest($5)),
                (select array[{held}]::text[] from {relation} as stored where {is_stored}),
                array[{is_held}], array[{is_read}]
            ) end
        from unnest(remaining) as change
    );
    select * into tried from cdc.find_bad_images({deltas_name}, array(
        select change from unnest(remaining) as change where change.missing is not null and change.problem is null
    ), $4, $5);
    if tried.good <> '{}' then
        remaining := array(
            select case
                when change.missing is not null and ({new_keys}) in (select {keys} from {deltas}(tried.good, $4, $5) as given)
                    then cdc.not_held(change)
                else change
            end
            from unnest(remaining) as change
        );
    end if;
    bad := array(select change from unnest(remaining) as change where change.problem is not null);
    remaining := array(select change from unnest(remaining) as change where change.problem is null);
end if;$template$,
        jsonb_build_object(
            'relation', relation,
            'held', held.texts,
            'is_held', held.flags,
            'is_read', held.reads,
            'is_stored', keys.is_old,
            'new_keys', keys.new,
            'keys', keys.given,
            'deltas', deltas,
            'deltas_name', quote_literal(deltas)
        )
    )
    from (
        select
            string_agg(case
                when state.name is null then 'null'
                when state.type = 'bytea' then format('substr(stored.%I::text, 3)', state.name)
                else cdc.as_text(format('stored.%I', state.name), state.type)
            end, ', ' order by needed.ordinal) as texts,
            string_agg((state.name is not null)::text, ', ' order by needed.ordinal) as flags,
            string_agg((compiled -> 'read_columns' @> (needed.value -> 'name'))::text, ', ' order by needed.ordinal) as reads
        from jsonb_path_query(compiled, '$.sources[0].columns[*] ? (@.is_needed == true)') with ordinality as needed (value, ordinal)
        left join lateral (
            select one.value ->> 'name' as name, one.value ->> 'type' as type
            from jsonb_array_elements(compiled -> 'state_columns') as one (value)
            where one.value -> 'column' = needed.value -> 'name'
            limit 1
        ) as state on true
    ) as held
    cross join (
        select
            string_agg(format('stored.%I %s ', key.value ->> 'name', cdc.equals(key.value ->> 'type')) || format(own.expression, 'old', own.ordinal), ' and ' order by key.ordinal) as is_old,
            string_agg(format(own.expression || own.as_text, 'new', own.ordinal), ', ' order by key.ordinal) as new,
            string_agg(format('given.%I', key.value ->> 'name') || own.as_text, ', ' order by key.ordinal) as given
        from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal)
        cross join lateral (
            select
                needed.ordinal,
                case key.value ->> 'type'
                    when 'bytea' then '(''\x'' || ltrim(change.%1$s_values[($5)[1][%2$s]], ''\x''))::bytea'
                    else format('change.%%1$s_values[($5)[1][%%2$s]]::%s', needed.value ->> 'type')
                end as expression,
                -- IN looks for an operator by its name.
                case when cdc.equals(key.value ->> 'type') = '=' then '' else '::text' end as as_text
            from jsonb_path_query(compiled, '$.sources[0].columns[*] ? (@.is_needed == true)') with ordinality as needed (value, ordinal)
            where needed.value -> 'name' = compiled -> 'identity' -> (key.ordinal::integer - 1)
        ) as own
    ) as keys
$$;
