-- SQL: give the rows of `remaining` the large values that no change of the batch has, as the model holds them, and set
-- those apart of which it does not.
create or replace function cdc.write_fill(compiled jsonb, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$if exists (select from unnest(remaining) as change where change.missing is not null) then
            remaining := array(
                select
                    case when change.missing is null then change else cdc.fill_row(
                        change, array(select unnest($5)),
                        (select array[{held}]::text[] from {relation} as stored where {is_stored}),
                        array[{is_held}]
                    ) end
                from unnest(remaining) as change
            );
            bad := array(select change from unnest(remaining) as change where change.problem is not null);
            messages := array(select change.problem from unnest(bad) as change);
            remaining := array(select change from unnest(remaining) as change where change.problem is null);
        end if;
        $template$,
        jsonb_build_object(
            'relation', relation,
            'held', held.texts,
            'is_held', held.flags,
            'is_stored', keys.condition
        )
    )
    from (
        select
            string_agg(case
                when kept.name is null then 'null'
                when kept.type = 'bytea' then format('substr(stored.%I::text, 3)', kept.name)
                -- A cast would cut the blanks at its end.
                when kept.type = 'bpchar' then format('textin(bpcharout(stored.%I))', kept.name)
                else format('stored.%I::text', kept.name)
            end, ', ' order by needed.place) as texts,
            string_agg((kept.name is not null)::text, ', ' order by needed.place) as flags
        from jsonb_path_query(compiled, '$.sources[0].columns[*] ? (@.is_needed == true)') with ordinality as needed (value, place)
        left join lateral (
            select one.value ->> 'name' as name, one.value ->> 'type' as type
            from jsonb_array_elements(compiled -> 'kept') as one (value)
            where one.value -> 'column' = needed.value -> 'name'
            limit 1
        ) as kept on true
    ) as held
    cross join (
        select string_agg(
            format('stored.%I = %s', key.value ->> 'name', case key.value ->> 'type'
                when 'text' then cdc.short_text(format('%s::%s::text', cut.value, own.type), (compiled ->> 'text_share')::integer)
                when 'bytea' then format(e'(''\\x'' || %s)::bytea', cut.value)
                else format('%s::%s', cut.value, own.type)
            end), ' and ' order by key.place
        ) as condition
        from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, place)
        cross join lateral (
            select needed.place, needed.value ->> 'type' as type
            from jsonb_path_query(compiled, '$.sources[0].columns[*] ? (@.is_needed == true)') with ordinality as needed (value, place)
            where needed.value -> 'name' = compiled -> 'identity' -> (key.place::integer - 1)
        ) as own
        cross join lateral (select format('change.old_values[($5)[1][%s]]', own.place) as value) as cut
    ) as keys
$$;
