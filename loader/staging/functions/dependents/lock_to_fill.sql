-- Lock a model over models that is to be filled, and these that are below it, and return whether that was possible.
-- Whoever applies locks what is below first and does not wait for it, so a patient caller, for whom nobody waits, waits
-- there so long: else slots that are busy would never let it begin, or end. It gives way to who waits for a table that
-- it has read, as dbt does to widen one: it looks more often than the server does for a deadlock, which would end that
-- one. A dependent that somebody has is not waited for.
create or replace function cdc.lock_to_fill(model text, inputs text[], patience interval) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '200ms' as $$
declare
    deadline constant timestamptz := clock_timestamp() + patience;
    needed record;
begin
    for needed in
        select own.relation, dependent.relation is not null as is_dependent
        from unnest(inputs || model) as own (relation)
        left join cdc.dependent_model as dependent on dependent.relation = own.relation
        order by is_dependent, own.relation collate "C"
    loop
        continue when pg_try_advisory_xact_lock(cdc.lock_key('model', needed.relation));
        if needed.is_dependent or patience is null then
            return false;
        end if;
        loop
            begin
                perform pg_advisory_xact_lock(cdc.lock_key('model', needed.relation));
                exit;
            exception
                when deadlock_detected then
                    return false;
                when lock_not_available then
                    if clock_timestamp() >= deadline or exists (
                        select from pg_locks as other
                        where not other.granted and other.locktype = 'relation' and pg_backend_pid() = any (pg_blocking_pids(other.pid))
                    ) then
                        return false;
                    end if;
            end;
        end loop;
    end loop;
    return true;
end
$$;
