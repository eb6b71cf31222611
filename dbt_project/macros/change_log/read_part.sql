{# SQL text: the name that the fact gives to a table; null where the table does not feed it. #}
{% macro read_part(tables, table) -%}
    case {{ table }}
        {%- for each in tables %}
        when {{ waltally.quote_literal(each.schema ~ '.' ~ each.table) }} then {{ waltally.quote_literal(each.name) }}
        {%- endfor %}
    end
{%- endmacro %}
