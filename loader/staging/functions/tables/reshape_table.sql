-- Give a model's table the columns and the key that its query has now. `definitions` has SQL by column, `model` the
-- kind and the keys of what is compiled.
-- Columns that stay as they are keep the views on them; the rows go, because the baseline is in their place in the same
-- transaction. A table that dbt made under this name before is changed in the same way.
create or replace function cdc.reshape_table(target regclass, definitions jsonb, model jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- A name that is free: whoever calls apply may have made temporary tables before.
    pattern constant text := 'pattern_' || gen_random_uuid()::text;
    key constant text[] := array(
        select value ->> 'name' from jsonb_array_elements(model -> 'keys') with ordinality as one (value, ordinal) order by ordinal
    );
    old_index regclass;
    key_name constant text := (select format('uix_%s_dimensions', c.relname) from pg_class as c where c.oid = target);
    changes text;
begin
    execute format('create temporary table %I (%s) on commit drop', pattern, (
        select string_agg(format('%I %s', one.value ->> 0, one.value ->> 1), ', ' order by one.ordinal)
        from jsonb_array_elements(definitions) with ordinality as one (value, ordinal)
    ));
    -- Expression columns go with each change of another column: they go first and come last.
    with old as (
        select * from cdc.column_forms(target)
    ),

    new as (
        select forms.*, one.value ->> 1 as definition, one.ordinal
        from jsonb_array_elements(definitions) with ordinality as one (value, ordinal)
        inner join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as forms on forms.name = one.value ->> 0
    ),

    compared as (
        select
            old.name,
            old.is_expression,
            own.is_other or old.is_expression and bool_or(not old.is_expression and own.is_other) over () as is_gone
        from old
        left join new on new.name = old.name
        cross join lateral (select (old.form in (new.form, new.roomy_form)) is not true as is_other) as own
    )

    select string_agg(change.text, ', ' order by change.step, change.ordinal) into changes
    from (
        select format('drop column %I', name) as text, case when is_expression then 1 else 2 end as step, 0 as ordinal
        from compared where is_gone
        union all
        select format('add column %I %s', name, definition), case when is_expression then 4 else 3 end, ordinal
        from new where name not in (select compared.name from compared where not is_gone)
    ) as change;
    if changes is not null then
        -- Readers with an older snapshot still see deleted rows, which they would not after TRUNCATE.
        execute format('lock table %1$s in access exclusive mode; delete from %1$s', target);
        execute format('alter table %s %s', target, changes);
    end if;
    execute format('drop table pg_temp.%I', pattern);
    if not (cdc.has_unique_key(target, key) or key = '{}' and exists (
        select from pg_index as x
        inner join pg_class as c on c.oid = x.indexrelid
        where x.indrelid = target and c.relname = key_name and x.indkey = '0'
    )) then
        execute format('alter table %s drop constraint if exists %I, set (fillfactor = 80)', target, key_name);
        -- Of a total.
        execute format('drop index if exists %s.%I', (select relnamespace::regnamespace from pg_class where oid = target), key_name);
        for old_index in
            select x.indexrelid from pg_index as x where x.indrelid = target and pg_get_indexdef(x.indexrelid) ~ ' btree \(hash_record_extended\('
        loop
            execute format('drop index %s', old_index);
        end loop;
        begin
            execute cdc.write_key(model, target::text, key_name);
        exception
            -- Of a row that is there, or that readers of before still see.
            when program_limit_exceeded then
                execute format('create index on %s ((%s))', target, cdc.key_hash(model));
        end;
    end if;
exception
    when dependent_objects_still_exist then
        raise exception '% has other columns now, and a view or a key still needs an old one: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;
