{# A name as wal2json prints it. dbt's tojson would escape letters beyond ASCII, and a search for
   them would find nothing. #}
{% macro print_json_string(name) -%}
    "{{ name | replace('\\', '\\\\') | replace('"', '\\"') }}"
{%- endmacro %}
