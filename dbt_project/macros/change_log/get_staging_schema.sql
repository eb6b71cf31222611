{# The staging schema as SQL writes it: LOADER_SCHEMA, which the loader reads too. It is always in
   quotes, because any name works. #}
{% macro get_staging_schema() -%}
    "{{ env_var('LOADER_SCHEMA', 'cdc') | replace('"', '""') }}"
{%- endmacro %}
