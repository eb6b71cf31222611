-- The changes of a batch without those that a query cannot take, and these, with PostgreSQL's message as their problem.
-- An update counts as a delete and an insert: one of its rows may be bad and the other good. Halves are tried in
-- subtransactions. More than 1,000 bad rows of one transaction stop the model.
create or replace function cdc.find_bad_images(
    deltas text, changes cdc.change[], table_nos integer[], ordinals integer[],
    out good cdc.change[], out bad cdc.change[]
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    half integer;
    other record;
begin
    begin
        execute format('select count(*) from %s($1, $2, $3)', deltas) using changes, table_nos, ordinals;
        good := changes;
        bad := '{}';
        return;
    exception
        -- What a row is to blame for. Memory, disk, locks, cancellation go on to the caller.
        when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
            if cardinality(changes) = 1 and changes[1].action <> 'U' then
                good := '{}';
                changes[1].problem := sqlerrm;
                changes[1].missing := null;
                bad := changes;
                return;
            end if;
    end;
    if exists (select from unnest(changes) as change where change.action = 'U') then
        changes := array(
            select row(
                change.table_no, image.action,
                -- A delete with a position may be one whose row stays counted (ignore_deletes); the old row of an
                -- update never does.
                case when (change.action, image.action) <> ('U', 'D') then change.commit_lsn end,
                change.ordinal, change.is_cancelled, change.problem,
                case image.action when 'D' then change.old_values end,
                case image.action when 'I' then change.new_values end,
                change.change_count, change.last_lsn, change.missing
            )::cdc.change
            from unnest(changes) as change
            cross join (values ('D'), ('I')) as image (action)
            where
                change.action in ('U', image.action)
                -- The reader gives an update too that moves only values of other models.
                and (change.action = 'U' and (
                    select bool_and(change.old_values[value_no] is not distinct from change.new_values[value_no])
                    from array_position(table_nos, change.table_no) as source_no
                    cross join lateral unnest(ordinals[source_no:source_no][:]) as value_no
                    where value_no is not null
                )) is not true
        );
    end if;
    half := cardinality(changes) / 2;
    select * into good, bad from cdc.find_bad_images(deltas, changes[:half], table_nos, ordinals);
    select * into other from cdc.find_bad_images(deltas, changes[half + 1:], table_nos, ordinals);
    good := good || other.good;
    bad := bad || other.bad;
    -- Changes that look alike are one here, whatever transactions they are of: one of them at least is at its last
    -- position. The step that lists them has each apart.
    if exists (select from unnest(bad) as change group by change.last_lsn having count(*) > 1000) then
        raise exception 'the query cannot take more than 1,000 rows of one transaction; the last of them: %', bad[cardinality(bad)].problem
            using errcode = 'WL005', hint = 'Write the query so that it takes them, run `loader setup`, `dbt build`, and seed the model.';
    end if;
end
$$;
