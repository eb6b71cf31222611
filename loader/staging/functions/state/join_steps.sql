-- The steps of a remedy, in their order. A seed that is counting already has only to end.
create or replace function cdc.join_steps(steps text[], seed text, is_counted boolean) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select case
            when is_counted and steps = '{seed}' then 'nothing is needed: it goes on when the seed has ended'
            else (
                select string_agg(
                    case step
                        when 'setup' then '`loader setup`'
                        when 'run' then 'see that `loader run` runs'
                        when 'seed' then case when is_counted then 'let the seed end' else seed end
                        when 'build' then '`dbt build`'
                    end,
                    ', then ' order by place
                )
                from unnest(steps) with ordinality as listed (step, place)
            )
        end
    );
end
$$;
