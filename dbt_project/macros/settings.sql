{# The settings that the loader reads too, under the same names. #}

{% macro slot_name() -%}
    {{ env_var('LOADER_SLOT', 'notify_dashboard_replication_slot') }}
{%- endmacro %}

{% macro staging_schema() -%}
    {{ env_var('LOADER_SCHEMA', 'cdc') }}
{%- endmacro %}

{# SQL text: the part that a table feeds, null where it feeds none. #}
{% macro part_of(table) -%}
    case {{ table }}
        when '{{ counted_table(0) | join('.') | replace("'", "''") }}' then 'live'
        when '{{ counted_table(1) | join('.') | replace("'", "''") }}' then 'archived'
    end
{%- endmacro %}
