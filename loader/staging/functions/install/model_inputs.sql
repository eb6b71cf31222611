-- The models that a query reads, as compile_query takes them: what of `relations` is installed, or compiled beside it
-- ("schema.table": what compile_query gave), with its shown columns.
create or replace function cdc.model_inputs(relations jsonb, compiled jsonb default '{}') returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    input jsonb;
    declared jsonb;
    inputs jsonb := '[]'::jsonb;
begin
    for input in select value from jsonb_array_elements(relations) loop
        if input ? 'table' then
            -- It is refused, with its columns where they are known.
            inputs := inputs || (coalesce((
                select known.shape
                from cdc.slot_position as log
                cross join cdc.source_shape(log, input ->> 'table') as known (shape)
                where known.shape ? 'schema'
                limit 1
            ), '{}') || input);
            continue;
        end if;
        select coalesce(
            compiled -> (input ->> 'model'),
            (select own.declaration from cdc.dependent_model as own where own.relation = input ->> 'model'),
            (select min(own.declaration::text)::jsonb from cdc.installed_model as own where own.relation = input ->> 'model' and own.declaration ? 'query')
        ) into declared;
        if declared is null then
            raise exception '% is no model of waltally: its changes are not seen.', input ->> 'model' using
                errcode = 'WL003', hint = case input ->> 'materialized'
                    when 'waltally' then 'Run `dbt build`, which builds it first.'
                    when 'view' then 'Instead: `materialized=''ephemeral''` for it, which dbt writes into the query.'
                    else 'Instead: `materialized=''waltally''` for it, if its query can be kept.'
                end;
        end if;
        inputs := inputs || cdc.as_input(input, declared);
    end loop;
    return inputs;
end
$$;
