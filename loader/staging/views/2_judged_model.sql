-- The verdict on each model: the first of these that is true. planned_model says what the next apply does because of
-- it, and explained_model says it to a person.
create or replace view cdc.judged_model as
select
    known.*,
    judged.verdict
from cdc.known_model as known
cross join lateral (
    select
        (
            is_refresh_asked
            or applied_lsn is null
            or built_by is distinct from registered
            or baseline_id is distinct from built_on
        ) as is_rebuild,
        -- The log lacks changes from the position on where a rebuild begins.
        position_lsn > base_lsn and coalesce(held_lsn > base_lsn, true) as is_base_lacking
    -- Here and below: without it the server would compute the column again wherever it is named.
    limit all offset 0
) as rebuilt
cross join lateral (
    select case
        when compiled <> registered then 'another query'
        when other_slot is not null then 'of another slot'
        when gone_columns is not null and lost_lsn is null then 'column gone'
        when baseline_id is null and built_on is not null and not is_refresh_asked then 'baseline gone'
        -- Its rows stay, and changes are added.
        when not is_rebuild and applied_lsn > greatest(position_lsn, snapshot_lsn) then 'ahead of the log'
        when not is_rebuild and applied_lsn < start_lsn then 'behind the log'
        when not is_rebuild and position_lsn > applied_lsn and coalesce(held_lsn > applied_lsn, true)
            then 'log lacks columns'
        when not is_rebuild and lost_lsn is not null then 'change without its old row'
        when not is_rebuild then 'follows'
        when lacks is not null then 'table lacks something'
        -- A rebuild needs a baseline of this declaration.
        when baseline_id is null then 'not seeded'
        when (counted_by is distinct from registered) then 'baseline of another declaration'
        when baseline_system <> system_identifier then 'baseline of another cluster'
        when snapshot_lsn < start_lsn then 'baseline before the log'
        when is_base_lacking then 'log lacks columns after the baseline'
        else 'to be rebuilt'
    end as verdict
    limit all offset 0
) as judged;
