-- Refuse what a model's config says and its query does not allow: a contract, too, has the type of each column. So are
-- more keys than an index has.
create or replace function cdc.check_options(compiled jsonb, options jsonb) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    unread text;
    differences text;
    is_time boolean := true;
begin
    if jsonb_array_length(compiled -> 'keys') > 32 then
        raise exception 'The query groups by % columns, those beside a primary key among them, and an index has 32 at most.',
            jsonb_array_length(compiled -> 'keys')
            using errcode = 'WL003', hint = 'Instead: fewer of them, and the others in a view that joins a rows model; or several as one text.';
    end if;

    if options ? 'unique_key' and not (
        options -> 'unique_key' @> jsonb_path_query_array(compiled, '$.keys[*].name')
        and jsonb_path_query_array(compiled, '$.keys[*].name') @> (options -> 'unique_key')
    ) then
        raise exception 'unique_key is not %.', case when compiled ->> 'kind' = 'rows' then 'the table''s primary key' else 'what the query groups by' end
            using errcode = 'WL003', hint = format(
                'Leave unique_key out, or write %s.',
                cdc.write_names(compiled -> 'keys', '%L')
            );
    end if;

    if compiled -> 'names' ? (options ->> 'surrogate_key') or options ->> 'surrogate_key' ~ '^waltally_' then
        raise exception 'surrogate_key is a column of the query, or begins with waltally_.' using errcode = 'WL003', hint = 'Instead: another name.';
    end if;
    select string_agg(name, ', ') into unread
    from jsonb_array_elements_text(options -> 'ignore_deletes') as ignored (name)
    where not compiled -> 'sources' @> jsonb_build_array(jsonb_build_object('table', name));
    if unread is not null then
        raise exception 'ignore_deletes names a table that the query does not read: %.', unread
            using errcode = 'WL003', hint = format(
                'Instead: one of %s.', (select string_agg(value ->> 'table', ', ') from jsonb_array_elements(compiled -> 'sources'))
            );
    end if;

    if options ->> 'engine' not in ('database', 'spark') then
        raise exception 'engine is %.', options ->> 'engine' using errcode = 'WL003', hint = 'Write database or spark.';
    elsif options ->> 'engine' = 'spark' and (compiled ->> 'kind' <> 'fact' or compiled ? 'inputs') then
        raise exception 'engine is spark, and Spark adds to facts over sources alone.' using errcode = 'WL003', hint = 'Leave engine out.';
    end if;

    if options ? 'changes' then
        begin
            is_time := (options ->> 'changes')::interval > '0';
        exception
            when data_exception then is_time := false;
        end;
        if not is_time then
            raise exception 'changes is %, which is no time.', options ->> 'changes' using errcode = 'WL003', hint = 'Write `1 hour` or the like.';
        end if;
    end if;

    select string_agg(
        format('%s is %s, and the contract says %s', name, coalesce(own.type, 'no column of the query'), coalesce(declared.type, 'nothing of it')), '; '
    )
    into differences
    from (select one.name, one.type from cdc.list_columns(compiled) as one where one.is_shown) as own
    full join jsonb_each_text(options -> 'contract') as declared (name, type) using (name)
    where format_type(to_regtype(own.type), null) is distinct from format_type(to_regtype(declared.type), null);
    if options ? 'contract' and differences is not null then
        raise exception '%', differences using errcode = 'WL003', hint = 'Correct the model''s YAML, or cast the column in the query.';
    end if;
end
$$;
