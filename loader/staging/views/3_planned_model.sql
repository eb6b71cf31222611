-- What the next apply does with each model because of its verdict: add changes from from_lsn on, rebuild from the
-- baseline, or nothing.
create or replace view cdc.planned_model as
with stepped as (
    select
        judged_model.*,
        case
            when judged_model.verdict in ('follows', 'follows without a baseline') then 'add'
            when judged_model.verdict = 'to be rebuilt' then 'rebuild'
        end as step
    from cdc.judged_model
)

select
    stepped.*,
    case when step = 'add' then applied_lsn else base_lsn end as from_lsn,
    -- Whether it moves with the others that follow. Not one whose baseline is ahead of the log: the others would pass
    -- over what is staged in between.
    coalesce(
        step = 'add' and engine = 'database' and error is null and applied_lsn <= position_lsn, false
    ) as is_ready
from stepped;
