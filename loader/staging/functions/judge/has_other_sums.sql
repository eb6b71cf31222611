-- Whether an entry of a select's list has a sum or an average that is not added to, as of floats or intervals.
create or replace function cdc.has_other_sums(target jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from jsonb_path_query(target, 'strict $.** ? (@._ == "AGGREF")') as call
        inner join pg_proc as p on p.oid = (call ->> 'aggfnoid')::oid and p.proname in ('sum', 'avg')
        where not cdc.is_sum(p.oid)
    )
$$;
