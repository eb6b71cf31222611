{# SQL text: what a value, given as a text, is called in the model. #}
{% macro label_value(value, text) -%}
    {%- if value.labels -%}
        case {{ text }}
        {%- for each, label in value.labels.items() %} when {{ waltally.quote_literal(each) }} then {{ waltally.quote_literal(label) }}
        {%- endfor %} else {{ text }} end
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}
