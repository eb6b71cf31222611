-- Drop the functions that a roll-up had for inputs before and that it has no more. Runs with the rights of dbt's role.
create or replace function cdc.drop_former(model text, kept text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    former text;
begin
    for former in
        select input.routine from cdc.roll_up_input as input
        where input.model_name = model and input.routine <> all (kept)
    loop
        execute format('drop function if exists %s', former::regprocedure);
    end loop;
end
$$;
