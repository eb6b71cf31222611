-- Whether a roll-up is kept from what this model changes. It stays so while the caller has the model's lock.
-- Not in the language sql: the server would plan its query at each call.
create or replace function cdc.is_watched(model text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select
        from cdc.roll_up_input as input
        inner join cdc.roll_up as rolled on rolled.model_name = input.model_name
        where input.input_name = model and not rolled.is_due
    ) or exists (
        select from cdc.downstream_input as input
        where input.input_name = model and not cdc.is_to_be_filled(input.model_name)
    );
end
$$;
