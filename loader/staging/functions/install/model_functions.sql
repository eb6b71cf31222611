-- The functions that a model needs: those of its query, and of the former one that goes on until the new one's
-- baseline.
create or replace function cdc.model_functions(slot text, model text) returns text[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select array_agg(p.oid::regprocedure::text)
    from cdc.installed_model as installed
    cross join lateral (values (installed.routine), (installed.former ->> 'routine')) as routines (name)
    inner join pg_proc as own on own.oid = to_regprocedure(routines.name)
    inner join pg_proc as p
        on
            p.oid = own.oid
            -- Anybody may give a function of another owner such a name. A model's name may have brackets, and be like
            -- this too.
            or p.pronamespace = own.pronamespace
            and p.proowner = own.proowner
            and own.proname ~ '__apply_[0-9a-f]{8}$'
            and p.proname in (
                select regexp_replace(own.proname, '__apply_([0-9a-f]{8})$', format('__%s_\1', part))
                from unnest('{deltas,totals,merge,by_hash}'::text[]) as part
            )
    where installed.slot_name = slot and installed.relation = model
$$;
