{# The columns of one of the fact's tables that its images must carry, as the table calls them. #}
{% macro list_needed_columns(declared, table) %}
    {%- set columns = [] -%}
    {%- for value in waltally.list_values(declared) if not value.parts or table.name in value.parts -%}
        {%- do columns.append(table.columns.get(value.column, value.column)) -%}
    {%- endfor -%}
    {{ return(columns | unique(case_sensitive=true) | list) }}
{% endmacro %}
