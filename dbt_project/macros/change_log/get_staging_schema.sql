{# The staging schema as SQL writes it: LOADER_SCHEMA, which the loader reads too, or the dbt
   variable loader_schema. It is always in quotes, because any name works. #}
{% macro get_staging_schema() -%}
    {{ waltally.quote_name(env_var('LOADER_SCHEMA', var('loader_schema', 'cdc'))) }}
{%- endmacro %}
