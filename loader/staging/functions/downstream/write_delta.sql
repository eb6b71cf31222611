-- SQL: what the changed rows of an input do to a model over it, as write_merge takes it. Where LEFT JOINs extend it
-- with nulls, each arm of a UNION ALL is written for itself.
create or replace function cdc.write_delta(compiled jsonb, model text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    numbers constant integer[] := array(
        select place::integer from jsonb_array_elements(compiled -> 'inputs') with ordinality as one (value, place)
        where value ->> 'model' = write_delta.model order by place
    );
    nullable constant integer[] := array(select n from unnest(numbers) as n where compiled #> '{joins,nullable}' ? n::text order by n);
    terms text := nullif(cdc.write_terms(compiled, array(select n from unnest(numbers) as n where n <> all (nullable) order by n)), '');
    arm integer[];
begin
    for arm in
        select distinct array(select other from unnest(nullable) as other where cdc.meet(compiled, array[n, other]) order by other)
        from unnest(nullable) as n
        order by 1
    loop
        terms := concat_ws(e'\n        union all\n        ', terms, format('select arm.* from (%s) as arm', cdc.write_left_terms(compiled, model, arm)));
    end loop;
    return format(
        e'with %s\n\n        %s', cdc.write_changed(cdc.held_columns(compiled, model)),
        case when compiled ->> 'kind' = 'roll-up' then cdc.write_roll_up(compiled, terms) else terms end
    );
end
$$;
