{# SQL text: the text of a value that read_batch found; null where it is absent or JSON's null. #}
{% macro read_value_text(value) -%}
    case when left({{ value }}, 1) = '\'
                then substr({{ value }}, 2)::jsonb #>> '{}' else {{ value }} end
{%- endmacro %}
