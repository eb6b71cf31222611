{# A text as an SQL string. #}
{% macro quote_literal(text) -%}
    '{{ text | replace("'", "''") }}'
{%- endmacro %}
