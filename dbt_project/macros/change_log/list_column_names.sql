{# What the tables call a column of the declaration: {column of the tables: [parts]}. #}
{% macro list_column_names(declared, column) %}
    {%- set names = {} -%}
    {%- for table in declared.tables -%}
        {%- do names.setdefault(table.columns.get(column, column), []).append(table.name) -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}
