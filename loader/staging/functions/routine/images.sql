-- The images of a source's changes: the new ones with the sign 1, the old ones with -1. A deleted row of a source whose
-- deletes are ignored has its position. A parsed body and no settings: the planner puts it into the calling query.
create or replace function cdc.images(changes cdc.change[], table_no integer, keeps_deleted boolean)
returns table (sign integer, ignored_lsn pg_lsn, change_count bigint, v text[])
language sql immutable
begin atomic
    select
        side.sign,
        case when $3 and change.action = 'D' then change.commit_lsn end as ignored_lsn,
        change.change_count,
        case side.sign when 1 then change.new_values else change.old_values end as v
    from unnest($1) as change
    cross join (values (1), (-1)) as side (sign)
    where change.table_no = $2 and change.action in ('U', case side.sign when 1 then 'I' else 'D' end)
    offset 0;
end;
