{# The settings that the loader reads too, under the same names. #}

{% macro slot_name() -%}
    {%- set name = env_var('LOADER_SLOT', 'notify_dashboard_replication_slot') -%}
    {%- if not modules.re.fullmatch('[a-z0-9_]{1,63}', name) -%}
        {{ exceptions.raise_compiler_error(
            'LOADER_SLOT is ' ~ name ~ ': a slot has lower-case letters, digits and underscores.'
        ) }}
    {%- endif -%}
    {{ name }}
{%- endmacro %}

{# The schema's name as SQL wants it. Any name works, so it is always in quotes. #}
{% macro staging_schema() -%}
    "{{ env_var('LOADER_SCHEMA', 'cdc') | replace('"', '""') }}"
{%- endmacro %}

{# A text as an SQL string. #}
{% macro literal(text) -%}
    '{{ text | replace("'", "''") }}'
{%- endmacro %}

{# SQL text: the part that a table feeds, null where it feeds none. #}
{% macro part_of(table) -%}
    case {{ table }}
        when '{{ counted_table(0) | join('.') | replace("'", "''") }}' then 'live'
        when '{{ counted_table(1) | join('.') | replace("'", "''") }}' then 'archived'
    end
{%- endmacro %}
