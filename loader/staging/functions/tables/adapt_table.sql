-- Give a model's table the columns of `pattern`, a query without rows, and return whether its rows went. Where
-- other columns than the derived ones change, or the key, nothing can be added to its rows. Then they go, unless
-- the `former` model is named: there the table stays as it is. The table itself stays, with its grants and with the
-- views on columns that stay.
create or replace function cdc.adapt_table(
    target regclass, pattern text, derived text[],
    key_name text, is_primary boolean, key text[], required text[], former text
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- A name that is free: whoever calls apply may have made temporary tables before.
    pattern_name constant text := 'pattern_' || gen_random_uuid();
    is_other boolean;
    changes text;
begin
    -- As dbt clone makes of each model for a schema of somebody's own.
    if (select relkind from pg_class where oid = target) = 'v' then
        raise exception '% is a view, and rows are added to a table', target
            using hint = format('drop view %s; -- then dbt build', target);
    end if;
    execute format('create temporary table %I on commit drop as (%s) with no data', pattern_name, pattern);
    select
        bool_or(columns.is_declared and not columns.is_same and columns.name <> all (derived))
        or not cdc.has_key(target, key_name, key)
    into is_other
    from cdc.compare_columns(target, ('pg_temp.' || quote_ident(pattern_name))::regclass) as columns;
    select string_agg(change.action, ', ' order by change.action desc) into changes
    from (
        select format('drop column %I', columns.name)
        from cdc.compare_columns(target, ('pg_temp.' || quote_ident(pattern_name))::regclass) as columns
        where
            columns.is_there and not columns.is_same
            and case
                when former is null then columns.is_declared or is_other
                -- A column that the model did not have is somebody else's.
                else exists (
                    select from cdc.installed_object as own
                    where own.model_name = former and own.kind = 'column' and own.name = columns.name
                )
            end
        union all
        select format('add column %I %s', columns.name, columns.type)
        from cdc.compare_columns(target, ('pg_temp.' || quote_ident(pattern_name))::regclass) as columns
        where columns.is_declared and not columns.is_same
    ) as change (action);
    execute format('drop table pg_temp.%I', pattern_name);
    if is_other and former is not null then
        return true;
    end if;
    if is_other then
        execute format('lock table %s in access exclusive mode', target);
        execute format('delete from %s', target);
    end if;
    if changes is not null then
        execute format('alter table %s %s', target, changes);
    end if;
    if is_other then
        perform cdc.keep_constraints(target, key_name, is_primary, key, required);
    end if;
    return is_other;
exception
    when dependent_objects_still_exist then
        raise exception '% declares other columns, and a view or a key still needs an old one: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;
