{# SQL text: ` and ...` for an image that a measure's own conditions ask about; empty where it has none. #}
{% macro is_measured(measure, values, image) -%}
    {%- for value in values if measure.name in value.measures | default([]) %} and {{ image }}v{{ values.index(value) }} = 'true'
    {%- endfor -%}
{%- endmacro %}
