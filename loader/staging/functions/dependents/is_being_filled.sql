-- Whether a session fills a model over models at this moment, without the locks of its inputs. Until the caller's
-- transaction ends no other one begins to: it waits for the lock that is shared here.
create or replace function cdc.is_being_filled(model text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return not pg_try_advisory_xact_lock_shared(cdc.lock_key('fill', model));
end
$$;
