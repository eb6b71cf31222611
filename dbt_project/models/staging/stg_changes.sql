with change_log as (
    select * from {{ source('cdc', 'change_log') }}
),

parsed as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        payload,
        {{ staging_schema() }}.jsonb_or_null(payload) as message
    from change_log
    where
        slot_name = '{{ slot_name() }}'
        and commit_lsn >= coalesce({{ batch_setting('from_lsn') }}, '0/0')::pg_lsn
        and commit_lsn < coalesce({{ batch_setting('to_lsn') }}, 'FFFFFFFF/FFFFFFFF')::pg_lsn
    -- The cast is most of the cost of a batch: once a row, not once a use.
    offset 0
),

named as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        payload,
        message is not null as is_json,
        message ->> 'action' as action,
        (message ->> 'schema') || '.' || (message ->> 'table') as source_table,
        message -> 'identity' as old_image,
        message -> 'columns' as new_image
    from parsed
    offset 0
)

select
    *,
    {{ part_of('source_table') }} as part
from named
