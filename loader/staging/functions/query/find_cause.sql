-- What a fact does after an error that a row or a group may be to blame for. First it leaves out rows that its query
-- cannot take; then it adds one group after the other, which names the group. `failed` is the error.
create or replace function cdc.find_cause(
    failed text, state text, deltas text, group_text text, failed_group text, table_nos integer[], places integer[],
    inout good cdc.change[], inout bad cdc.change[], inout messages text[], inout rejected_lsn pg_lsn, out groups text[]
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    tried constant cdc.change[] := good;
begin
    if failed_group is not null then
        raise exception '% in the group %', failed, failed_group using errcode = state;
    end if;
    if bad is null then
        -- Once without those that are bad, and without updates that move only values of other models.
        select * into good, bad, messages from cdc.find_bad_images(deltas, good, table_nos, places);
        select greatest(rejected_lsn, max(change.last_lsn)) into rejected_lsn
        from unnest(cdc.name_bad_rows(bad, messages)) as change;
        if good <> tried then
            return;
        end if;
    end if;
    -- An expression of totals is to blame, or their size.
    execute format('select array(select distinct %s from %s($1, $2, $3) as changed)', group_text, deltas)
    into groups using good, table_nos, places;
end
$$;
