{# The raw changes of the bounded batch that meet a condition, each with its action, table and
   images. Where no build has bounded a batch: of the whole change log. #}
{% macro read_changes(tables, condition='true') %}
with change_log as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        action,
        -- A long payload is stored compressed or out of line: read it once, not at each use.
        payload || '' as payload,
        case
            when action is null then {{ waltally.get_staging_schema() }}.jsonb_or_null(payload)
        end as message
    from {{ source('cdc', 'change_log') }}
    where
        slot_name = '{{ waltally.get_slot_name() }}'
        -- As subqueries they are evaluated once, not for each row.
        and commit_lsn >= (select coalesce({{ waltally.get_batch_setting('from_lsn') }}, '0/0')::pg_lsn)
        and commit_lsn
        < (select coalesce({{ waltally.get_batch_setting('to_lsn') }}, 'FFFFFFFF/FFFFFFFF')::pg_lsn)
        and ({{ condition }})
    offset 0
),

recognised as (
    select
        *,
        {{ waltally.find_plugin_action() }} as plugin_action
    from change_log
    offset 0
),

changes as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        payload,
        plugin_action is not null or message is not null as is_json,
        -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
        coalesce(message ? 'undecodable', false) as is_undecodable,
        coalesce(plugin_action, message ->> 'action') as action,
        {{ waltally.read_table(tables) }} as source_table,
        {{ waltally.cut_old_image() }} as old_image,
        {{ waltally.cut_new_image() }} as new_image
    from recognised
    offset 0
)

select
    *,
    {{ waltally.read_part(tables, 'source_table') }} as part
from changes
{% endmacro %}
