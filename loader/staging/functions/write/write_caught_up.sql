-- SQL: add what was queued while a model over models was filled. Of a model over one other, whose rows are read again,
-- the changed rows were queued; else what they add, as only then all its inputs were as they were.
create or replace function cdc.write_caught_up(compiled jsonb, relation text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when compiled ->> 'kind' = 'roll-up' or compiled ? 'group'
            then cdc.write_added(compiled, compiled #>> '{inputs,0,model}', relation, true)
        else cdc.write_long(compiled, relation, cdc.write_merge(compiled, relation, cdc.write_queued(own.columns, format(
            'jsonb_to_record(queued.change) as own (%s)', (
                select string_agg(format(
                    '%I %s', value ->> 'name', cdc.typed(compiled, value ->> 'name', value ->> 'type')
                ), ', ' order by place)
                from jsonb_array_elements(own.columns) with ordinality as one (value, place)
            )
        )), 'false'))
    end
    from (select (compiled -> 'keys') || (compiled -> 'kept') as columns) as own
$$;
