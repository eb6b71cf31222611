-- The third part of the template of write_reader: changes that look alike become one, with the values of its rows, and
-- the ordinals of those that are `missing`.
create or replace function cdc.reader_values() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$template$    -- Changes are alike if their tokens are. So each value is read once for all of them.
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
                        select one.ordinal::integer from unnest(old_tokens) with ordinality as one (token, ordinal)
                        where one.token is null and action in ('U', 'D')
                        union
                        select one.ordinal::integer from unnest(new_tokens) with ordinality as one (token, ordinal)
                        where one.token is null and action in ('U', 'I')
                        union
                        select -one.ordinal::integer from unnest(new_tokens) with ordinality as one (token, ordinal)
                        where one.token is null and action = 'U'
                    )
            end as missing
        from grouped
        offset 0
    )$template$
$$;
