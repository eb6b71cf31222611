-- Until when everything that was committed is in a model, or without a name in every model over sources of the slot but
-- copies, whose names are their relations: for a page that says how fresh its numbers are. See model_progress.
create or replace function cdc.exact_as_of(slot text, model text default null) returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
    select case when bool_and(own.exact_as_of is not null) then min(own.exact_as_of) end
    from cdc.model_progress(slot) as own
    where case
        when model is not null then own.name = model
        else own.name <> own.relation and own.inputs is null and own.applied_lsn is not null
    end
$$;

comment on function cdc.exact_as_of(text, text) is
    'Until when everything that was committed at the source is in the model, or in every model of the slot.';
