{# The bodies of stg_changes and stg_truncates, as a hook cannot refer to an ephemeral model. #}
{% macro staged_changes() %}
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
        -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
        coalesce(message ? 'undecodable', false) as is_undecodable,
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
{% endmacro %}

{% macro staged_truncates() %}
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
{% endmacro %}
