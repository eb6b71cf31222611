-- Lock the models over these ones, before anything of them is changed: all of them, in one order for all slots, so that
-- nobody waits in a circle. One that somebody keeps for a second is left out, and filled afterwards.
create or replace function cdc.lock_above(models text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    model text;
begin
    if not exists (select from cdc.downstream_input as input where input.input_relation = any (models)) then
        return;
    end if;
    for model in
        select above.name from cdc.models_above(models) as above (name)
        where not cdc.is_to_be_filled(above.name)
        order by above.name collate "C"
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
