-- A row of last_rows with the values that no change has, from what the model holds of it: `held` are the texts of the
-- needed columns in their order, null where the model has none, and null altogether where it does not hold the row.
create or replace function cdc.fill_row(change cdc.change, places integer[], held text[], is_held boolean[]) returns cdc.change
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    place integer;
begin
    for place_no in 1..cardinality(places) loop
        place := places[place_no];
        continue when not place = any (change.missing);
        if held is null or not is_held[place_no] then
            change.problem := 'an unchanged large value is not in the change, and the model does not hold it';
            return change;
        end if;
        change.new_values[place] := held[place_no];
    end loop;
    return change;
end
$$;
