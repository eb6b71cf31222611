-- Write down what a model failed with, unless dbt has installed it again meanwhile, and when it is tried again: what
-- somebody has locked each second, anything else ever more seldom, so that it does not slow the other models.
create or replace function cdc.note_failure(plan cdc.model_plan, code text, message text, hint text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    is_lock constant boolean := code = '55P03';
begin
    update cdc.installed_model as stored
    set
        error = message,
        is_locked = is_lock,
        is_unseen = code = 'WL006',
        remedy = coalesce(
            -- Somebody has taken the table's key, or a column, away, changed its type, or added one. The server has hints
            -- for some of it, which mean its SQL.
            case
                when code in ('42P10', '42703', '42804', '42883', '23502') then format(
                    '`dbt build --full-refresh --select %s` makes the table''s columns and key again', plan.model_name
                )
            end,
            nullif(hint, ''),
            case
                when is_lock then 'nothing; it is tried again'
                -- Of a group: what a row is to blame for is rejected.
                when code like '22%' then format(
                    'cast what is summed to numeric, or write the expression so that it takes any total; then `loader setup`, '
                    '`spark-submit spark/seed.py --model %s`, `dbt build`',
                    plan.model_name
                )
                -- A hint of the server's is of the SQL; these are of the machine.
                when code like '53%' then 'give the target''s server more of it (disk, memory, `temp_file_limit`); then it goes on by itself'
                when code = '42501' then 'grant it as docs/roles.md says, then `dbt build`'
                -- A seed would wait for it to write down the deletes that it ignores.
                when code = 'WL004' and plan.declaration @? '$.sources[*].keeps_deleted ? (@ == true)' then format(
                    '`dbt build --full-refresh --select %1$s`; if it fails again, '
                    '`spark-submit spark/seed.py --model %1$s --forget-purged`',
                    plan.model_name
                )
                when code = 'WL004' then format('`spark-submit spark/seed.py --model %s`', plan.model_name)
                when plan.engine = 'spark' then '`dbt build` makes what is missing; then `spark-submit spark/apply.py`'
                else '`dbt build` makes what is missing and tries it at once'
            end
        ),
        failed_at = clock_timestamp(),
        failures = case when is_lock or code = 'WL006' then 0 else failures + 1 end,
        retry_at = clock_timestamp() + make_interval(
            secs => case when is_lock or code = 'WL006' then 1 else least(60, 2 ^ least(failures, 10)) end
        )
    where
        stored.slot_name = plan.slot_name
        and stored.relation = plan.relation
        and stored.xmin = plan.installed_version;
end
$$;
