{# SQL text: the table as schema.name for the name that the model gives to it; null for null. #}
{% macro name_source_table(declared, part) -%}
    case {{ part }}
        {%- for table in declared.tables %}
        when {{ waltally.quote_literal(table.name) }} then {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}
        {%- endfor %}
    end
{%- endmacro %}
