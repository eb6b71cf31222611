-- Give columns of a model's table the wider types that its query has now; its rows stay. Expression columns are made
-- again.
create or replace function cdc.widen_table(target regclass, definitions jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    pattern constant text := 'pattern_' || gen_random_uuid()::text;
    changes text;
begin
    execute format('create temporary table %I (%s) on commit drop', pattern, (
        select string_agg(format('%I %s', one.value ->> 0, one.value ->> 1), ', ' order by one.ordinal)
        from jsonb_array_elements(definitions) with ordinality as one (value, ordinal)
    ));
    with compared as (
        select
            new.*, one.value ->> 1 as definition, one.ordinal, own.is_other, bool_or(own.is_other) over () as has_other
        from jsonb_array_elements(definitions) with ordinality as one (value, ordinal)
        inner join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as new on new.name = one.value ->> 0
        inner join cdc.column_forms(target) as old on old.name = new.name
        cross join lateral (select old.form not in (new.form, new.roomy_form) as is_other) as own
    )

    select string_agg(change.text, ', ' order by change.step, compared.ordinal) into changes
    from compared
    inner join pg_attribute as a on a.attrelid = ('pg_temp.' || quote_ident(pattern))::regclass and a.attname = compared.name
    cross join lateral (
        select 1 as step, format('drop column %I', compared.name) as text where compared.is_expression and compared.has_other
        union all
        select 2, format(
            'alter column %I type %s', compared.name,
            format_type(a.atttypid, a.atttypmod) || coalesce(' collate ' || nullif(a.attcollation, 0)::regcollation::text, '')
        )
        where not compared.is_expression and compared.is_other
        union all
        select 3, format('add column %I %s', compared.name, compared.definition) where compared.is_expression and compared.has_other
    ) as change;
    execute format('drop table pg_temp.%I', pattern);
    if changes is not null then
        execute format('alter table %s %s', target, changes);
    end if;
exception
    when dependent_objects_still_exist or feature_not_supported then
        raise exception '% has wider columns now, and a view still needs the former ones: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;
