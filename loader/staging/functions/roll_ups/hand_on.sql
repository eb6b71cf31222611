-- Tell the roll-ups of a model what it has changed, each then those above it. The highest comes first: what is below it
-- holds, when the same parent rows are under both, what it held before.
create or replace function cdc.hand_on(slot text, model text, moved cdc.moved_row[], is_reset boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    rolled record;
begin
    if moved is null and is_reset is not true then
        return;
    end if;
    for rolled in
        select own.model_name, input.routine
        from cdc.roll_up_input as input
        inner join cdc.roll_up as own on own.model_name = input.model_name
        where input.input_name = model and not own.is_due
        order by cardinality(own.inputs) desc, own.model_name
    loop
        if is_reset or not pg_try_advisory_xact_lock(cdc.lock_key('model', rolled.model_name)) then
            -- Another session installs it, or brings it the changes of another input: nobody waits for that.
            perform cdc.suspend_roll_up(rolled.model_name, null);
        else
            perform cdc.add_to_roll_up(slot, rolled.model_name, rolled.routine, moved);
        end if;
    end loop;
end
$$;
