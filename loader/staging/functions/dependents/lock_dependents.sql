-- Lock the dependents of these models, before anything of them is changed: all, in one order for all slots, so that
-- nobody waits in a circle. One that somebody keeps for a second is left out, and filled afterwards.
create or replace function cdc.lock_dependents(models text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    model text;
begin
    if not exists (select from cdc.dependent_input as input where input.input_relation = any (models)) then
        return;
    end if;
    for model in
        select dependent.relation from cdc.dependents_of(models) as dependent (relation)
        where not cdc.is_to_be_filled(dependent.relation)
        order by dependent.relation collate "C"
    loop
        continue when pg_try_advisory_xact_lock(cdc.lock_key('model', model));
        begin
            perform pg_advisory_xact_lock(cdc.lock_key('model', model));
        exception
            when lock_not_available or deadlock_detected then
                perform cdc.ask_to_fill(model, 'another session kept it locked for a second');
        end;
    end loop;
end
$$;
