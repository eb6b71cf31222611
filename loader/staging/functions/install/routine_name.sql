-- The name of a model's routine, or of its deltas, as SQL writes it: what of the table's name leaves room for the rest,
-- and a digest, as the routines of a former query stay until the baseline of the new one is there.
create or replace function cdc.routine_name(model_schema text, model_table text, part text, compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        '%I.%I', model_schema,
        -- A `name` has 63 bytes, and is cut between two characters.
        substr((repeat('-', 19) || model_table)::name::text, 20) || format('__%s_%s', part, left(md5(compiled::text || model_table), 8))
    )
$$;
