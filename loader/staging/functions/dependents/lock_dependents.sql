-- Lock the dependents of these models, before anything of them is changed: all, in one order for all slots, so that
-- nobody waits in a circle. Of one that is being filled it is the queue, as who fills it has the other lock: of two
-- sessions that change an input each, the second one sees what the first one has changed. One that somebody keeps for a
-- second is left out, and filled afterwards.
create or replace function cdc.lock_dependents(models text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    model text;
    key bigint;
begin
    if not exists (select from cdc.dependent_input as input where input.input_relation = any (models)) then
        return;
    end if;
    for model, key in
        select
            dependent.relation,
            cdc.lock_key(
                case when cdc.is_to_be_filled(dependent.relation) then 'queue' else 'model' end, dependent.relation
            )
        from cdc.dependents_of(models) as dependent (relation)
        where cdc.takes_changes(dependent.relation)
        order by dependent.relation collate "C"
    loop
        continue when pg_try_advisory_xact_lock(key);
        begin
            perform pg_advisory_xact_lock(key);
        exception
            when lock_not_available or deadlock_detected then
                perform cdc.ask_to_fill(model, 'another session kept it locked for a second');
        end;
    end loop;
end
$$;
