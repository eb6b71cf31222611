-- The model as commands take it: a copy by its relation. `inputs`: the models that it is made of.
create or replace function cdc.command_name(slot text, model_name text, declared_name text, inputs text[] default null)
returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return case when cdc.is_copy(slot, inputs || model_name) then model_name else declared_name end;
end
$$;
