-- The model as commands take it: a copy by its relation. `inputs`: the models that it is made of.
create or replace function cdc.command_name(slot text, relation text, model_name text, inputs text[] default null)
returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return case when cdc.is_copy(slot, inputs || relation) then relation else model_name end;
end
$$;
