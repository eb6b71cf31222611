-- A row of last_rows with the values that no change has, from what the model holds of it: `held` are the texts of the
-- needed columns in their order, null altogether where it does not hold the row. `is_held` says which of them it has as
-- they are, `is_read` on which of them more depends: without these nothing is known of the row, and it has a problem.
-- A row that is not held and lacks others keeps `missing`.
create or replace function cdc.fill_row(
    change cdc.change, ordinals integer[], held text[], is_held boolean[], is_read boolean[]
) returns cdc.change
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    ordinal integer;
begin
    change.missing := nullif(array(select unnest(change.missing) intersect select unnest(ordinals)), '{}');
    if change.missing is null then
        return change;
    end if;
    for number in 1..cardinality(ordinals) loop
        ordinal := ordinals[number];
        continue when not ordinal = any (change.missing);
        if held is not null and is_held[number] then
            change.new_values[ordinal] := held[number];
        elsif is_read[number] then
            return cdc.not_held(change);
        end if;
    end loop;
    if held is not null then
        change.missing := null;
    end if;
    return change;
end
$$;
