with change_log as (
    -- The words of the index change_log_truncates.
    {{ staged_rows("action is null or action = 'T'") }}
),

truncates as (
    select
        {{ part_of(table_of()) }} as part,
        commit_lsn,
        ordinal
    from change_log
    where {{ action_of() }} = 'T'
)

select distinct on (part)
    part,
    commit_lsn,
    ordinal
from truncates
where part is not null
order by part asc, commit_lsn desc, ordinal desc
