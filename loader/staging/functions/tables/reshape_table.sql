-- Give a model's table the columns and the key that its query has now. `definitions` has SQL by column, `key_sql` makes the
-- key under the name waltally_key. Columns
-- that stay as they are keep the views on them; the rows go, because the baseline is in their place in the same
-- transaction. A table that dbt made under this name before is changed in the same way.
create or replace function cdc.reshape_table(target regclass, definitions jsonb, key text[], key_sql text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- A name that is free: whoever calls apply may have made temporary tables before.
    pattern constant text := 'pattern_' || gen_random_uuid();
    key_name constant text := (select format('uix_%s_dimensions', c.relname) from pg_class as c where c.oid = target);
    changes text;
    takes_derived boolean;
begin
    execute format('create temporary table %I (%s) on commit drop', pattern, (
        select string_agg(format('%I %s', one.value ->> 0, one.value ->> 1), ', ' order by one.place)
        from jsonb_array_elements(definitions) with ordinality as one (value, place)
    ));
    -- What is derived depends on other columns: it goes first and comes last.
    foreach takes_derived in array array[true, false] loop
        select string_agg(format('drop column %I', old.name), ', ') into changes
        from cdc.column_forms(target) as old
        left join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as new on new.name = old.name
        where
            old.is_derived = takes_derived
            and (old.form is distinct from new.form or takes_derived and exists (
                select from cdc.column_forms(target) as needed
                left join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as kept
                    on kept.name = needed.name
                where not needed.is_derived and needed.form is distinct from kept.form
            ));
        if changes is not null then
            perform cdc.empty_table(target);
            execute format('alter table %s %s', target, changes);
        end if;
    end loop;
    foreach takes_derived in array array[false, true] loop
        select string_agg(format('add column %I %s', one.value ->> 0, one.value ->> 1), ', ' order by one.place) into changes
        from jsonb_array_elements(definitions) with ordinality as one (value, place)
        inner join cdc.column_forms(('pg_temp.' || quote_ident(pattern))::regclass) as new
            on new.name = one.value ->> 0 and new.is_derived = takes_derived
        where new.name not in (select old.name from cdc.column_forms(target) as old);
        if changes is not null then
            perform cdc.empty_table(target);
            execute format('alter table %s %s', target, changes);
        end if;
    end loop;
    execute format('drop table pg_temp.%I', pattern);
    if not (cdc.has_unique_key(target, key) or key = '{}' and exists (
        select from pg_index as x
        inner join pg_class as c on c.oid = x.indexrelid
        where x.indrelid = target and c.relname = key_name and x.indkey = '0'
    )) then
        execute format('alter table %s drop constraint if exists %I, set (fillfactor = 80)', target, key_name);
        execute replace(key_sql, 'waltally_key', quote_ident(key_name));
    end if;
exception
    when dependent_objects_still_exist then
        raise exception '% has other columns now, and a view or a key still needs an old one: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;
