-- Refuse a query for all that is wrong with it at once: each reason and each remedy a line. Null: nothing is.
create or replace function cdc.refuse(reasons text[], remedies text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if reasons is not null then
        raise exception '%', array_to_string(reasons, e'.\n') || '.'
            using errcode = 'WL003', hint = 'Instead: ' || array_to_string(remedies, e'.\nInstead: ') || '.';
    end if;
end
$$;
