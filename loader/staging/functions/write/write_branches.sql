-- SQL: what the changed rows of each input do to a model over models; with `is_queue` it is not added, but given.
create or replace function cdc.write_branches(compiled jsonb, relation text, is_queue boolean) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select string_agg(format(
        e'if $2 = %L then\n        %s\n    end if;', own.model, case
            when not is_queue then cdc.write_added(compiled, own.model, relation, false)
            when compiled ->> 'kind' = 'roll-up' or compiled ? 'group' then cdc.write_queue(
                cdc.held_columns(compiled, own.model) -> 'columns' || '{"name": "waltally_sign"}',
                format('with %s select * from changed', cdc.write_changed(cdc.held_columns(compiled, own.model)))
            )
            else cdc.write_queue((compiled -> 'keys') || (compiled -> 'kept'), cdc.write_delta(compiled, own.model))
        end
    ), e'\n    ' order by own.model)
    from (select distinct value ->> 'model' as model from jsonb_array_elements(compiled -> 'inputs')) as own
$$;
