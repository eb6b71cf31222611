-- The steps of a remedy, in their order; `models` are the options of a seed or an audit. A seed that is counting
-- already has only to end.
create or replace function cdc.join_steps(steps text[], models text, is_counted boolean) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select case
            when is_counted and steps = '{seed}' then 'nothing is needed: it goes on when the seed has ended'
            else (
                select string_agg(
                    case step
                        when 'setup' then '`loader setup`'
                        when 'copy' then '`dbt build` of one query in both schemas, or another name for one of the two models'
                        when 'run' then 'see that `loader run` runs'
                        when 'seed' then case when is_counted then 'let the seed end' else format('`spark-submit spark/seed.py%s`', models) end
                        when 'build' then '`dbt build`'
                        when 'audit' then format('`spark-submit spark/audit.py%s`', models)
                    end,
                    ', then ' order by ordinal
                )
                from unnest(steps) with ordinality as listed (step, ordinal)
            )
        end
    );
end
$$;
