-- Add what an input has changed to a roll-up that the caller has locked, by the routine for that input. What this fails
-- with is written down, and the roll-up is filled again: no input fails because of it.
create or replace function cdc.add_to_roll_up(slot text, model text, routine text, moved cdc.moved_row[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    target record;
    result cdc.outcome;
    code text;
    message text;
begin
    -- Before the lock somebody may have seen that it has to be filled.
    if (select rolled.is_due from cdc.roll_up as rolled where rolled.model_name = model) is not false then
        return;
    end if;
    begin
        target := cdc.find_installed(routine, '(text, cdc.moved_row[], boolean)', 'cdc.outcome');
        execute format('select * from %s(cdc.unless_replaced($1, $4, $5), $2, $3)', target.name)
        into result
        using slot, moved, cdc.is_watched(model), target.oid, target.version;
    exception
        when others then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
            perform cdc.suspend_roll_up(
                model,
                case code
                    when 'WL001' then null
                    when '55P03' then 'it could not be locked: ' || message
                    else message
                end
            );
            return;
    end;
    if result.is_reset then
        perform cdc.suspend_roll_up(model, null);
    else
        perform cdc.hand_on(slot, model, result.moved, false);
    end if;
end
$$;
