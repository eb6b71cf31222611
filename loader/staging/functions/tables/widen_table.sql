-- Give columns of a model's table the wider types that its query has now; its rows stay. What is derived is made again.
create or replace function cdc.widen_table(target regclass, definitions jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    pattern constant text := 'pattern_' || gen_random_uuid()::text;
    changes text;
begin
    execute format('create temporary table %I (%s) on commit drop', pattern, (
        select string_agg(format('%I %s', one.value ->> 0, one.value ->> 1), ', ' order by one.place)
        from jsonb_array_elements(definitions) with ordinality as one (value, place)
    ));
    select string_agg(change.text, ', ' order by change.step, one.place) into changes
    from jsonb_array_elements(definitions) with ordinality as one (value, place)
    inner join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as new on new.name = one.value ->> 0
    inner join cdc.column_forms(target) as old on old.name = new.name
    inner join pg_attribute as a on a.attrelid = ('pg_temp.' || quote_ident(pattern))::regclass and a.attname = new.name
    cross join lateral (
        select 1 as step, format('drop column %I', new.name) as text where new.is_derived
        union all
        select 2, format(
            'alter column %I type %s', new.name, format_type(a.atttypid, a.atttypmod) || coalesce(' collate ' || nullif(a.attcollation, 0)::regcollation::text, '')
        )
        where not new.is_derived and old.form not in (new.form, new.roomy_form)
        union all
        select 3, format('add column %I %s', new.name, one.value ->> 1) where new.is_derived
    ) as change;
    execute format('drop table pg_temp.%I', pattern);
    execute format('alter table %s %s', target, changes);
exception
    when dependent_objects_still_exist or feature_not_supported then
        raise exception '% has wider columns now, and a view still needs the former ones: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;
