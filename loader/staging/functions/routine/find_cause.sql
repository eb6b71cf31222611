-- What a fact does after an error that a row or a group may be to blame for: once it leaves out rows that its query
-- cannot take, then its table gets room for a value that did not fit. With null for `groups` all is added again; else
-- these are added one after the other, which names the one at fault. `failed` is the error.
create or replace function cdc.find_cause(
    failed text, state text, deltas text, group_text text, failed_group text, table_nos integer[], ordinals integer[],
    relation regclass, hash text,
    inout good cdc.change[], inout rejected_lsn pg_lsn, inout is_judged boolean, out groups text[]
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    tried constant cdc.change[] := good;
    bad cdc.change[];
begin
    if failed_group is not null then
        raise exception '% in the group %', failed, failed_group using errcode = state;
    end if;
    if is_judged is null then
        is_judged := true;
        -- Without those that are bad, and without updates that move only values of other models.
        select * into good, bad from cdc.find_bad_images(deltas, good, table_nos, ordinals);
        select greatest(rejected_lsn, max(change.last_lsn)) into rejected_lsn from unnest(cdc.new_rows(bad)) as change;
        if good <> tried then
            return;
        end if;
    end if;
    if cdc.make_room(relation, hash, state) then
        return;
    end if;
    -- An expression of totals is to blame, or their size.
    execute format('select array(select distinct %s from %s($1, $2, $3) as changed)', group_text, deltas)
    into groups using good, table_nos, ordinals;
    if groups = '{}' then
        raise exception '%', failed using errcode = state;
    end if;
end
$$;
