{# A source table as SQL wants it, where it is in this database. dbt's own look for it would execute
   what stands in the schema's name. #}
{% macro name_source(table) -%}
    {%- if not waltally.list_column_types([table.schema, table.table]) -%}
        {{ exceptions.raise_compiler_error(
            'A recount needs ' ~ table.schema ~ '.' ~ table.table ~ ' in this database.'
        ) }}
    {%- endif -%}
    {{ waltally.quote_name(table.schema) }}.{{ waltally.quote_name(table.table) }}
{%- endmacro %}
