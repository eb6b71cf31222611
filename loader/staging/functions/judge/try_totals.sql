-- Refuse expressions of totals that PostgreSQL does not take as generated columns. They name what they are made of by
-- its ordinal: so nothing can be mistaken for a column of the model.
create or replace function cdc.try_totals(compiled jsonb, types jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    shown jsonb;
begin
    for shown in select value from jsonb_array_elements(compiled -> 'expression_columns') loop
        begin
            -- A partitioned table has no file.
            execute format(
                'create temporary table waltally_totals ('
                'waltally_no integer, %s, waltally_expression %s generated always as (%s) stored'
                ') partition by range (waltally_no)',
                (
                    select string_agg(
                        format('waltally_%s_%s %s', one.kind, one.ordinal, types #>> array[one.value ->> 'name', 'type'])
                        || coalesce(' collate ' || (compiled #>> array['collations', one.value ->> 'name']), ''), ', '
                    )
                    from (
                        select 'key' as kind, ordinal, value from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, ordinal)
                        union all
                        select 'state', ordinal, value from jsonb_array_elements(compiled -> 'state_columns') with ordinality as state (value, ordinal)
                    ) as one
                ),
                shown ->> 'type', shown ->> 'expression'
            );
            drop table pg_temp.waltally_totals;
        exception
            when undefined_column or undefined_table then
                raise exception '%: a column that is not grouped beside totals.', shown ->> 'name'
                    using errcode = 'WL003', hint = 'Select the column and group by it, and add both up in a view.';
            when invalid_object_definition or feature_not_supported or syntax_error or indeterminate_collation then
                raise exception '%: what PostgreSQL does not keep beside totals: %.', shown ->> 'name', sqlerrm
                    using errcode = 'WL003', hint = 'Compute it in a view, or in the query that reads the model.';
        end;
    end loop;
end
$$;
