-- SQL: the function that gives what the changed rows of an input do to a model over models, `former` and `present`, or
-- what was queued while it was filled. Of a roll-up, whose rows are read again, its input's changed rows were queued;
-- else what they add, as only then all inputs were as they were.
create or replace function cdc.write_model_deltas(compiled jsonb, deltas text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {deltas}(step text, input text, former anyarray, present anyarray, queued jsonb[])
returns table ({returns})
language plpgsql stable {pins}
-- Few rows meet many: an index finds them, however small the tables were when the plan was made.
set enable_seqscan = off set enable_mergejoin = off
as $routine$
#variable_conflict use_column
begin
    if $1 = 'catch up' then
        return query
        select
            {values}
        from (
            {queued}
        ) as delta;
    {inputs}
    end if;
end
$routine$
$template$,
        jsonb_build_object(
            'deltas', deltas,
            'pins', cdc.routine_pins(compiled),
            'returns', cdc.write_names(own.columns, '%I %s'),
            'values', own.selected,
            'queued', case when compiled ->> 'kind' = 'roll-up' then cdc.write_delta(compiled, compiled #>> '{inputs,0,model}', true)
                else cdc.write_queued(own.columns, format('jsonb_to_record(queued.change) as own (%s)', cdc.write_names(own.columns, '%I %s'))) end,
            'inputs', (
                select string_agg(format(
                    e'elsif $2 = %L then\n    return query\n    select\n        %s\n    from (\n        %s\n    ) as delta;',
                    input.model, cdc.indent(own.selected, '        '), cdc.indent(cdc.write_delta(compiled, input.model), '        ')
                ), e'\n' order by input.model)
                from (select distinct value ->> 'model' as model from jsonb_array_elements(compiled -> 'inputs')) as input
            )
        )
    )
    from (
        select one.columns, cdc.write_names(one.columns, 'delta.%I::%s') as selected
        from cdc.delta_columns(compiled) as one (columns)
    ) as own
$$;
