-- An expression over totals, as find_aggregates gives its pieces, with waltally_state_1, 2, ... in place of the
-- state columns of each aggregate: of an average the sum and the number of values.
create or replace function cdc.keep_totals(
    inout state_columns jsonb, pieces text[], is_anew boolean, out expression text
)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    ordinal bigint;
    count_ordinal bigint;
begin
    expression := pieces[1];
    for number in 2..cardinality(pieces) - 1 by 2 loop
        if not is_anew and pieces[number] ~ '^avg\((?!DISTINCT\s)' then
            select * into state_columns, ordinal from cdc.keep_aggregate(state_columns, regexp_replace(pieces[number], '^avg\(', 'sum('), false);
            select * into state_columns, count_ordinal from cdc.keep_aggregate(state_columns, regexp_replace(pieces[number], '^avg\(', 'count('), false);
            expression := expression || format('((waltally_state_%s)::numeric / nullif(waltally_state_%s, 0))', ordinal, count_ordinal);
        else
            select * into state_columns, ordinal from cdc.keep_aggregate(state_columns, pieces[number], is_anew);
            expression := expression || format('waltally_state_%s', ordinal);
        end if;
        expression := expression || pieces[number + 1];
    end loop;
end
$$;
