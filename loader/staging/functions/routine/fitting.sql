-- The text of an integer of up to `largest`. A larger one was written after the column has got another type: the model
-- stops there, until dbt builds it with that type, and rejects nothing.
create or replace function cdc.fitting(value text, name text, largest bigint) returns text
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    if value ~ '^-?[0-9]+$' and value::numeric not between -largest - 1 and largest then
        raise exception 'the column % has another type than when the model was built: it holds %', name, value
            using errcode = 'WL007', hint = '`loader setup`, then `dbt build`; it goes on from here, without a seed.';
    end if;
    return value;
end
$$;
