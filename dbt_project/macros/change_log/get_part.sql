{# SQL text: the part of the counts that a table feeds, live or archived; null where it feeds none.
   #}
{% macro get_part(table) -%}
    case {{ table }}
        when {{ quote_literal(get_counted_table(0) | join('.')) }} then 'live'
        when {{ quote_literal(get_counted_table(1) | join('.')) }} then 'archived'
    end
{%- endmacro %}
