-- SQL: the function that reads a part of the log once for all models of a slot, and gives the changes that matter to
-- any of them, in the columns of the type `change`. Changes that look alike are one, which is most of what makes a
-- batch cheap; `is_each` keeps them apart.
--
-- gives  [["schema.table", ["column", ...], apart, "schema", "table", renamed columns as list_needs has them], ...];
--        apart is false, true where the deletes of each transaction stay apart, or "each" where every change does
--
-- An image, the old or the new row of a change, is an array of {"name": ..., "value": ...} as text. The token of a
-- column is what follows its name: the first character of it says whether the value is a string, null, or a number or a
-- truth value, which end with the bracket. That is safe, because a name with its quotes, colon and bracket cannot be
-- part of a value: there the quotes would be escaped.
create or replace function cdc.write_reader(reader text, gives jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {reader}(
    slot text,
    from_lsn pg_lsn,
    to_lsn pg_lsn,
    first_lsn pg_lsn,
    first_ordinal bigint,
    end_lsn pg_lsn,
    end_ordinal bigint,
    is_each boolean
) returns cdc.change[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp set row_security = off set jit = off set enable_sort = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $reader$
declare
    changes cdc.change[];
begin
$template$ || concat_ws(e'\n\n', cdc.reader_named(), cdc.reader_images(), cdc.reader_values()) || $template$

    select array_agg(row(
        table_no, action, commit_lsn, ordinal, is_cancelled, problem, old_values, new_values, change_count, last_lsn, missing
    )::cdc.change)
    into changes
    from valued
    -- The last token of an image ends with what closes it, so two may be of one value.
    where (action = 'U' and problem is null and missing is null and old_values = new_values) is not true;
    return changes;
end
$reader$
$template$,
        (
            select jsonb_build_object(
                'reader', reader,
                'plain_tables', coalesce(string_agg(format(
                    'when action is not null and starts_with(header, %L) then %s',
                    format('%s,"table":%s', to_json(split.schema_name), to_json(split.table_name)), split.ordinal
                ), e'\n' order by split.ordinal), 'when false then 0'),
                'tables', coalesce(string_agg(format('when %L then %s', split.name, split.ordinal), e'\n' order by split.ordinal), 'when null then 0'),
                'numbered', coalesce(string_agg(format('(%s, %L)', split.ordinal, split.name), ', ' order by split.ordinal), '(0, '''')'),
                'columns', coalesce(format('case table_no %s end', string_agg(format('when %s then %L::text[]', split.ordinal, array(select jsonb_array_elements_text(split.columns))), ' ' order by split.ordinal)), 'null::text[]'),
                'old_tokens', coalesce(string_agg(format('when %s then array[%s]::text[]', split.ordinal, cdc.write_tokens(split.columns, array['old'], split.renamed)), e'\n' order by split.ordinal), 'when 0 then null::text[]'),
                'new_tokens', coalesce(string_agg(format('when %s then array[%s]::text[]', split.ordinal, cdc.write_tokens(split.columns, array['new', 'old'], split.renamed)), e'\n' order by split.ordinal), 'when 0 then null::text[]'),
                'old_values', coalesce(string_agg(format('when %s then array[%s]::text[]', split.ordinal, cdc.write_values(split.columns, 'old')), e'\n' order by split.ordinal), 'when 0 then null::text[]'),
                'new_values', coalesce(string_agg(format('when %s then array[%s]::text[]', split.ordinal, cdc.write_values(split.columns, 'new')), e'\n' order by split.ordinal), 'when 0 then null::text[]'),
                'alone', coalesce(string_agg(format(' or table_no = %s%s', split.ordinal, case split.alone when 'true' then ' and action = ''D''' else '' end), '' order by split.ordinal) filter (where split.alone <> 'false'), ''),
                'each', coalesce(string_agg(format(' or table_no = %s', split.ordinal), '' order by split.ordinal) filter (where split.alone = 'each'), '')
            )
            from (
                select
                    one.ordinal,
                    one.value ->> 0 as name,
                    one.value ->> 3 as schema_name,
                    one.value ->> 4 as table_name,
                    one.value -> 1 as columns,
                    one.value ->> 2 as alone, coalesce(one.value -> 5, '{}') as renamed
                from jsonb_array_elements(gives) with ordinality as one (value, ordinal)
            ) as split
        )
    )
$$;
