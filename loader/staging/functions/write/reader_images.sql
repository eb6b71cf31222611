-- The second part of the template of write_reader: of each change of these tables its old and its new row, and of these
-- the tokens of the columns. What cannot be read has a `problem`.
create or replace function cdc.reader_images() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$template$    images as (
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
    ),$template$
$$;
