-- How the routine of each model over tables begins; cdc.apply calls it:
--
-- step          rebuild: start from the baseline. add: add changes; `add plain` where none is a TRUNCATE or a delete.
--               refill: the same during a rebuild, whose baseline was taken without `truncated` tables. list: list what
--               could not be counted, change by change.
-- table_nos     of each source, the reader's number of its table
-- ordinals      of each source, where a change has the values of its columns
-- changed_rows  null where no model reads this one; then before and after, its changed rows, stay null
create or replace function cdc.routine_head() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$template$create or replace function {routine}(
    step text,
    slot text,
    changes cdc.change[],
    table_nos integer[],
    ordinals integer[],
    truncated text[],
    changed_rows anyarray,
    out rejected_lsn pg_lsn, out is_reset boolean, out lost_lsn pg_lsn, out before anyarray, out after anyarray
)
language plpgsql security definer {pins}$template$
$$;
