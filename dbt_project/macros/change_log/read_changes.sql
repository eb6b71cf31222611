{# The raw rows of the bounded batch, or of the whole log where no build has bounded one. The
   payload is brought into memory once: out of line or compressed it would be at each use. #}
{% macro staged_rows(condition='true') %}
    select
        *,
        case
            when action is not null then action::text
            -- The loader did not say: a hand or an older loader wrote the row.
            when
                message is not null
                and left(payload, 500) ~ '^{"action":"[IU]",("[a-z]+":("[^"\\]*"|\d+),)+"columns":\['
                then substr(payload, 12, 1)
            when
                message is not null
                and left(payload, 500) ~ '^{"action":"D",("[a-z]+":("[^"\\]*"|\d+),)+"identity":\['
                then 'D'
        end as plugin_action
    from (
        select
            slot_name,
            commit_lsn,
            ordinal,
            xid,
            committed_at,
            action,
            payload || '' as payload,
            case
                when action is null then {{ staging_schema() }}.jsonb_or_null(payload)
            end as message
        from {{ source('cdc', 'change_log') }}
        where
            slot_name = '{{ slot_name() }}'
            -- As subqueries they are evaluated once, not for each row.
            and commit_lsn >= (select coalesce({{ batch_setting('from_lsn') }}, '0/0')::pg_lsn)
            and commit_lsn
            < (select coalesce({{ batch_setting('to_lsn') }}, 'FFFFFFFF/FFFFFFFF')::pg_lsn)
            and ({{ condition }})
        offset 0
    ) as staged
    offset 0
{% endmacro %}

{# What a row of staged_rows did: I, U, D or T; as it came otherwise. #}
{% macro action_of() -%}
    coalesce(plugin_action, message ->> 'action')
{%- endmacro %}

{# The table that a row of staged_rows names, as LOADER_TABLES does. The plugin's own form of the
   counted names is looked for first: quotes that are not escaped are never inside a value. #}
{% macro table_of() -%}
    case
        {%- for place in [0, 1] %}
        {%- set table = counted_table(place) %}
        {%- set printed = '"schema":' ~ tojson(table[0]) ~ ',"table":' ~ tojson(table[1]) %}
        when plugin_action is not null and strpos(payload, '{{ printed | replace("'", "''") }}') > 0
            then '{{ table | join('.') | replace("'", "''") }}'
        {%- endfor %}
        else (
            select (parsed.change ->> 'schema') || '.' || (parsed.change ->> 'table')
            from (
                select coalesce(message, {{ staging_schema() }}.jsonb_or_null(payload)) as change
            ) as parsed
        )
    end
{%- endmacro %}

{# The part of a row's payload that holds the old or the new image, as image_value searches it. The
   plugin prints columns before identity: what is before is the new image, the whole where there
   is only one. No strpos on long texts: it counts the characters up to what it finds. #}
{% macro old_image_of() -%}
    case plugin_action
        when 'I' then null
        when 'U' then nullif(split_part(payload, ',"identity":[', 2), '')
        when 'D' then payload
        else (message -> 'identity')::text
    end
{%- endmacro %}

{% macro new_image_of() -%}
    case plugin_action
        when 'I' then payload
        when 'U' then split_part(payload, ',"identity":[', 1)
        when 'D' then null
        else (message -> 'columns')::text
    end
{%- endmacro %}
