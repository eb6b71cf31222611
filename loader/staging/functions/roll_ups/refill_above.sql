-- Have every roll-up that is made of this model, at any depth, filled again.
create or replace function cdc.refill_above(model text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update cdc.roll_up as rolled
    set is_due = true
    from (
        select above.model_name from cdc.roll_up as above
        where above.inputs @> array[model]
        order by above.model_name
        for no key update
    ) as above
    where rolled.model_name = above.model_name and not rolled.is_due
$$;
