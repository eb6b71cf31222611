-- Refuse a query whose sources are followed by several slots. `relations` name the slot of each where they know it.
create or replace function cdc.require_one_slot(relations jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    slots constant text[] := array(select distinct value ->> 'slot' from jsonb_array_elements(relations) where value ? 'slot' order by 1);
begin
    if cardinality(slots) > 1 then
        raise exception 'The query reads sources of several slots: %.', array_to_string(slots, ', ') using
            errcode = 'WL003', hint = 'Instead: a model for each slot, and a query over these models by ref().';
    end if;
end
$$;
