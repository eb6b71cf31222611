-- What changes that carry whole rows leave of them: a delete of each row that is gone, an insert of each that is there
-- now. The order does not matter, nor does a key that belongs to two rows for a moment. Each has the position of the
-- last change to it, where the changes have one.
create or replace function cdc.net_rows(changes cdc.change[]) returns cdc.change[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(row(
        image.table_no,
        case when image.net > 0 then 'I' else 'D' end,
        image.commit_lsn,
        image.ordinal,
        false,
        null,
        case when image.net < 0 then image.row_values end,
        case when image.net > 0 then image.row_values end,
        1,
        image.last_lsn,
        null
    )::cdc.change), '{}')
    from (
        select
            change.table_no,
            case side.sign when 1 then change.new_values else change.old_values end as row_values,
            sum(side.sign * change.change_count) as net,
            max(change.commit_lsn) as commit_lsn,
            -- No sort, which would compare the rows.
            (max(case when change.ordinal is not null then array[change.commit_lsn - '0/0'::pg_lsn, change.ordinal] end))[2]::bigint as ordinal,
            max(change.last_lsn) as last_lsn
        from unnest(changes) as change
        cross join (values (1), (-1)) as side (sign)
        where change.action in ('U', case side.sign when 1 then 'I' else 'D' end)
        group by 1, 2
    ) as image
    -- A part of a transaction may end while two rows, which are equal, have one key.
    cross join generate_series(1, abs(image.net)::integer)
$$;
