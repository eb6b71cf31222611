-- Refuse to make an id of a value that may be spelled in several ways: it is made of the texts of its key, of which a
-- numeric alone has one for equal values. `types` has the type of each key by its name.
create or replace function cdc.refuse_keys(keys jsonb, types jsonb, has_id boolean) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    select key.value ->> 'name' as name, types #>> array[key.value ->> 'name', 'type'] as type into refused
    from jsonb_array_elements(keys) as key
    where has_id and (types #> array[key.value ->> 'name', 'is_loose'])::boolean and types #>> array[key.value ->> 'name', 'type'] <> 'numeric'
    limit 1;
    if found then
        raise exception '%: a surrogate key of values of %, which has several spellings.', refused.name, refused.type
            using errcode = 'WL003', hint = format('Instead: its text, `(%s)::text`.', refused.name);
    end if;
end
$$;
