-- What the next apply does with each model because of its verdict: add changes from from_lsn on, rebuild from the
-- baseline, or nothing.
create or replace view cdc.planned_model as
select
    judged.*,
    planned.step,
    case when planned.step = 'add' then judged.applied_lsn else judged.base_lsn end as from_lsn,
    -- Whether it moves with the others that follow. Not one whose baseline is ahead of the log: the others would pass
    -- over what is staged in between.
    coalesce(
        planned.step = 'add'
        and judged.engine = 'database'
        and judged.error is null
        and judged.applied_lsn <= judged.position_lsn,
        false
    ) as is_ready
from cdc.judged_model as judged
cross join lateral (
    select case
        -- What came without its old row is missing until a seed; what comes after it is not.
        when judged.verdict in ('follows', 'change without its old row') then 'add'
        when judged.verdict = 'to be rebuilt' then 'rebuild'
    end as step
    limit all offset 0
) as planned;
