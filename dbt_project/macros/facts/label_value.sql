{# SQL text: what a value, given as a text, is called in the model. Null stays null. #}
{% macro label_value(value, text) -%}
    {%- if value.labels -%}
        case {{ text }}
        {%- for each, label in value.labels.items() %} when {{ waltally.quote_literal(each) }} then {{ waltally.quote_literal(label) }}
        {%- endfor %} else
        {%- if value.other_label is none %} {{ text }}
        {%- else %} case when {{ text }} is not null then {{ waltally.quote_literal(value.other_label) }} end
        {%- endif %} end
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}
