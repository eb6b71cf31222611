{# The settings that the loader reads too, under the same names. #}

{% macro slot_name() -%}
    {{ env_var('LOADER_SLOT', 'notify_dashboard_replication_slot') }}
{%- endmacro %}

{% macro staging_schema() -%}
    {{ env_var('LOADER_SCHEMA', 'cdc') }}
{%- endmacro %}

{# The table that feeds a part of the counts: 0 the live rows, 1 the archived ones. #}
{% macro counted_table(place) -%}
    {{ (
        env_var('LOADER_TABLES', 'public.notifications,public.notification_history').split(',')
        | map('trim') | list
    )[place] }}
{%- endmacro %}

{# SQL text: the part that a table feeds, null where it feeds none. #}
{% macro part_of(table) -%}
    case {{ table }}
        when '{{ counted_table(0) }}' then 'live'
        when '{{ counted_table(1) }}' then 'archived'
    end
{%- endmacro %}
