-- SQL: what the changed rows of an input do to a model over it, as write_merge takes it. Where LEFT JOINs extend it
-- with nulls, what meets in no row is written for itself, as the arms of a UNION ALL.
create or replace function cdc.write_delta(compiled jsonb, model text, is_queued boolean default false) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    numbers constant integer[] := array(
        select ordinal::integer from jsonb_array_elements(compiled -> 'inputs') with ordinality as one (value, ordinal)
        where value ->> 'model' = write_delta.model order by ordinal
    );
    nullable constant integer[] := array(select n from unnest(numbers) as n where compiled #> '{joins,nullable}' ? n::text order by n);
    terms text := nullif(cdc.write_terms(compiled, array(select n from unnest(numbers) as n where n <> all (nullable) order by n)), '');
    remaining integer[] := nullable;
    arm integer[];
    wider integer[];
begin
    while remaining <> '{}' loop
        wider := remaining[1:1];
        loop
            arm := wider;
            wider := array(select n from unnest(cdc.met_inputs(compiled, arm, true)) as n where n = any (nullable) order by n);
            exit when wider = arm;
        end loop;
        remaining := array(select n from unnest(remaining) as n where n <> all (arm) order by n);
        terms := concat_ws(e'\nunion all\n', terms, format('select arm.* from (%s) as arm', cdc.write_left_terms(compiled, model, arm)));
    end loop;
    return format(
        e'with %s\n\n%s', cdc.write_changed(cdc.input_columns(compiled, model), is_queued),
        case when compiled ->> 'kind' = 'roll-up' then cdc.write_roll_up(compiled, terms) else terms end
    );
end
$$;
