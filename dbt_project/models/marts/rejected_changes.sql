{{ config(
    incremental_strategy='append',
    pre_hook="{{ empty_before_rebuild() }}",
) }}

with deltas as (
    select * from {{ ref('int_service_deltas') }}
)

select
    slot_name,
    commit_lsn,
    ordinal,
    xid,
    committed_at,
    source_table,
    action,
    rejected_reason as reason,
    payload
from deltas
where rejected_reason is not null
