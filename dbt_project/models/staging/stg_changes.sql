with change_log as (
    {{ staged_rows() }}
),

named as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        payload,
        plugin_action is not null or message is not null as is_json,
        {{ action_of() }} as action,
        {{ table_of() }} as source_table,
        {{ old_image_of() }} as old_image,
        {{ new_image_of() }} as new_image
    from change_log
    offset 0
)

select
    *,
    {{ part_of('source_table') }} as part
from named
