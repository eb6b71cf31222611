-- Have a model over models filled from its inputs. Only a row is added, so that nobody is waited for; one for each
-- reason, and another one for whoever fills it at this moment, who takes those away that were there.
create or replace function cdc.ask_to_fill(model text, reason text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    insert into cdc.to_fill (relation, reason)
    select model, ask_to_fill.reason
    where
        not exists (select from cdc.to_fill as asked where asked.relation = model and asked.reason = ask_to_fill.reason)
        or cdc.is_being_filled(model)
$$;
