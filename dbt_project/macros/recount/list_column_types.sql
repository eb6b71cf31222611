{# The types of the columns of a table, [schema, name]: {column: type}. dbt's own macro would execute
   what stands in the table's name. #}
{% macro list_column_types(names) %}
    {%- set types = {} -%}
    {%- for row in run_query(
        'select column_name, data_type from information_schema.columns where table_schema = '
        ~ waltally.quote_literal(names[0]) ~ ' and table_name = ' ~ waltally.quote_literal(names[1])
    ) -%}
        {%- do types.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {{ return(types) }}
{% endmacro %}
