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
    with change_log as (
        select
            commit_lsn,
            ordinal,
            action,
            octet_length(payload) > 1000000 and action is not null as is_long,
            -- It may be stored compressed or out of line: read it once, not at each use. A long one stays there: see cut_tokens.
            case when octet_length(payload) > 1000000 and action is not null then payload else payload || '' end as payload,
            case when action is null then cdc.jsonb_or_null(payload) end as message
        from cdc.change_log
        where
            slot_name = $1
            and commit_lsn >= $4
            and commit_lsn <= $6
            and (commit_lsn, ordinal) >= ($4, $5)
            and (commit_lsn, ordinal) < ($6, $7)
        offset 0
    ),

    headed as (
        select
            *,
            coalesce(action::text, message ->> 'action') as said_action,
            -- Of the plugin's own message: the names, and what of it comes before the first row.
            split_part(split_part(case when is_long then left(payload, 2000) else payload end, '":[', 1), ',"schema":', 2) as header
        from change_log
        offset 0
    ),

    named as (
        select
            *,
            case
                {plain_tables}
                -- Another table, unless its name has to be read as JSON.
                when action is not null and header ~ '^"[^"\\]*","table":"[^"\\]*"' then 0
                else (
                    select case parsed.message ->> 'schema' || '.' || (parsed.message ->> 'table')
                        {tables}
                        else case when parsed.message ? 'schema' and parsed.message ? 'table' then 0 end
                    end
                    from (
                        select coalesce(message, cdc.jsonb_or_null(case when is_long then format('{"schema":%s":[]}', header) else payload end)) as message
                    ) as parsed
                )
            end as table_no
        from headed
        offset 0
    ),

    -- The last TRUNCATE of each table. The condition is that of the index change_log_truncates, word for word, or the
    -- whole batch would be read.
    truncates as (
        select distinct on (numbered.table_no)
            numbered.table_no,
            log.commit_lsn,
            log.ordinal
        from cdc.change_log as log
        cross join lateral (select cdc.jsonb_or_null(log.payload) as message) as parsed
        inner join (values {numbered}) as numbered (table_no, name)
            on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
        where
            log.slot_name = $1
            and log.commit_lsn >= $2
            and log.commit_lsn < $3
            and (log.action is null or log.action = 'T')
            and parsed.message ->> 'action' = 'T'
        order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
    ),

    images as (
        select
            named.commit_lsn,
            named.ordinal,
            named.said_action as action,
            named.table_no, named.is_long,
            case
                when named.action is null and named.message is null then 'the payload is not valid JSON'
                -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
                when named.message ? 'undecodable' then 'the text of the row does not fit the target''s encoding'
                when named.said_action is null or named.said_action not in ('I', 'U', 'D', 'T')
                    then 'the action is not known'
                when named.table_no is null then 'the change names no table'
            end as problem,
            -- wal2json prints the columns before the identity, so the new image is what comes before. Where there is
            -- only one image, the whole text is searched. Not by strpos: on a long text it counts the characters.
            case
                when named.action = 'I' then null
                when named.action = 'D' or named.is_long then named.payload
                when named.action = 'U' then nullif(split_part(named.payload, ',"identity":[', 2), '')
                else cdc.plain_image(named.message -> 'identity')
            end as old_image,
            case
                when named.action = 'D' then null
                when named.action = 'I' or named.is_long then named.payload
                when named.action = 'U' then split_part(named.payload, ',"identity":[', 1)
                else cdc.plain_image(named.message -> 'columns')
            end as new_image,
            ((named.commit_lsn, named.ordinal) < (truncates.commit_lsn, truncates.ordinal)) is true as is_cancelled
        from named
        left join truncates on truncates.table_no = named.table_no
        where
            -- Transaction bounds and messages hold no row; 0 is a table that no model reads.
            coalesce(named.said_action not in ('B', 'C', 'M'), true)
            and named.table_no is distinct from 0
        offset 0
    ),

    -- Null where an image lacks the column. A large value that was not changed is not in the new one.
    tokens as (
        select
            *,
            case when is_long then cdc.cut_tokens(old_image, action = 'U', 'old', {columns}) else case table_no
                {old_tokens}
            end end as old_tokens,
            case when is_long then cdc.cut_tokens(new_image, action = 'U', 'new', {columns}) else case table_no
                {new_tokens}
            end end as new_tokens
        from images
        -- Without this the planner repeats each search wherever its result is used.
        offset 0
    ),

    -- Changes are alike if their tokens are. So each value is read once for all of them.
    grouped as (
        select
            table_no,
            action,
            case when $8 or table_no is null{alone} then commit_lsn end as commit_lsn,
            case when $8 or table_no is null{each} then ordinal end as ordinal,
            is_cancelled,
            problem,
            old_image is null or is_long and old_tokens is null as lacks_old,
            new_image is null as lacks_new,
            old_tokens,
            new_tokens,
            count(*) as change_count,
            max(commit_lsn) as last_lsn
        from tokens
        -- An update that moves none of the values, and lacks none.
        where
            (
                action = 'U' and problem is null
                and old_tokens = new_tokens and array_position(old_tokens, null) is null
            ) is not true
        group by 1, 2, 3, 4, is_cancelled, problem, 7, 8, old_tokens, new_tokens
    ),

    valued as (
        select
            table_no,
            action,
            commit_lsn,
            ordinal,
            is_cancelled,
            coalesce(problem, case
                when action in ('U', 'D') and lacks_old then 'the replica identity carries no old row'
                when action in ('U', 'I') and lacks_new then 'the change has no row'
            end) as problem,
            case table_no
                {old_values}
            end as old_values,
            case table_no
                {new_values}
            end as new_values,
            change_count,
            last_lsn,
            case
                when
                    problem is null
                    and (
                        array_position(old_tokens, null) is not null and action in ('U', 'D')
                        or array_position(new_tokens, null) is not null and action in ('U', 'I')
                    )
                    then array(
                        select one.place::integer from unnest(old_tokens) with ordinality as one (token, place)
                        where one.token is null and action in ('U', 'D')
                        union
                        select one.place::integer from unnest(new_tokens) with ordinality as one (token, place)
                        where one.token is null and action in ('U', 'I')
                        union
                        select -one.place::integer from unnest(new_tokens) with ordinality as one (token, place)
                        where one.token is null and action = 'U'
                    )
            end as missing
        from grouped
        offset 0
    )

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
                    format('%s,"table":%s', to_json(split.schema_name), to_json(split.table_name)), split.place
                ), e'\n                ' order by split.place), 'when false then 0'),
                'tables', coalesce(string_agg(format('when %L then %s', split.name, split.place), e'\n                        ' order by split.place), 'when null then 0'),
                'numbered', coalesce(string_agg(format('(%s, %L)', split.place, split.name), ', ' order by split.place), '(0, '''')'),
                'columns', coalesce(format('case table_no %s end', string_agg(format('when %s then %L::text[]', split.place, array(select jsonb_array_elements_text(split.columns))), ' ' order by split.place)), 'null::text[]'),
                'old_tokens', coalesce(string_agg(format('when %s then array[%s]::text[]', split.place, cdc.write_tokens(split.columns, array['old'], split.renamed)), e'\n                ' order by split.place), 'when 0 then null::text[]'),
                'new_tokens', coalesce(string_agg(format('when %s then array[%s]::text[]', split.place, cdc.write_tokens(split.columns, array['new', 'old'], split.renamed)), e'\n                ' order by split.place), 'when 0 then null::text[]'),
                'old_values', coalesce(string_agg(format('when %s then array[%s]::text[]', split.place, cdc.write_values(split.columns, 'old')), e'\n                ' order by split.place), 'when 0 then null::text[]'),
                'new_values', coalesce(string_agg(format('when %s then array[%s]::text[]', split.place, cdc.write_values(split.columns, 'new')), e'\n                ' order by split.place), 'when 0 then null::text[]'),
                'alone', coalesce(string_agg(format(' or table_no = %s%s', split.place, case split.alone when 'true' then ' and action = ''D''' else '' end), '' order by split.place) filter (where split.alone <> 'false'), ''),
                'each', coalesce(string_agg(format(' or table_no = %s', split.place), '' order by split.place) filter (where split.alone = 'each'), '')
            )
            from (
                select
                    one.place,
                    one.value ->> 0 as name,
                    one.value ->> 3 as schema_name,
                    one.value ->> 4 as table_name,
                    one.value -> 1 as columns,
                    one.value ->> 2 as alone, coalesce(one.value -> 5, '{}') as renamed
                from jsonb_array_elements(gives) with ordinality as one (value, place)
            ) as split
        )
    )
$$;
