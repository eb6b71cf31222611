{{ config(
    incremental_strategy='append',
    pre_hook="{{ empty_before_rebuild() }}",
    meta={'lists_rejections_of': 'ft_service_stats'},
) }}

with changes as (
    {{ signed_deltas(
        ref('stg_changes'), ref('stg_truncates'), service_dimensions(), each_change=true
    ) }}
),

-- The fact has been over these changes: where it met none that it could not count, there is
-- nothing to look for.
rejections as (
    select count(*) as places
    from {{ source('cdc', 'model_watermark') }}
    where
        model_name = '{{ model_key(ref('ft_service_stats')) }}'
        and slot_name = '{{ slot_name() }}'
        and rejected_lsn >= coalesce({{ batch_setting('from_lsn') }}, '0/0')::pg_lsn
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
from changes
where rejected_reason is not null and (select rejections.places > 0 from rejections)
