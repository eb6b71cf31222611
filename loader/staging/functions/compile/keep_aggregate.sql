-- The state columns with one more aggregate if it is not there yet, under the name of a column or one of ours;
-- `ordinal` is its own. is_added: it is a sum or a count, to which is added, and not computed again.
create or replace function cdc.keep_aggregate(
    inout state_columns jsonb, expression text, is_anew boolean, name text default null, out ordinal bigint
)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    ordinal := (
        select min(own.ordinal) from jsonb_array_elements(state_columns) with ordinality as own (value, ordinal)
        where own.value ->> 'expression' = keep_aggregate.expression
    );
    if ordinal is null then
        ordinal := jsonb_array_length(state_columns) + 1;
        state_columns := state_columns || jsonb_build_object(
            'name', coalesce(
                keep_aggregate.name, case keep_aggregate.expression when 'count(*)' then 'waltally_rows' end,
                format('waltally_%s_%s', split_part(keep_aggregate.expression, '(', 1), ordinal)
            ),
            'expression', keep_aggregate.expression,
            'is_added', not is_anew and keep_aggregate.expression ~ '^(count|sum)\((?!DISTINCT\s)'
        );
    end if;
end
$$;
