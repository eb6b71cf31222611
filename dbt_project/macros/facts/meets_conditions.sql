{# SQL text: may an image count, as far as it says what the conditions ask about? #}
{% macro meets_conditions(values, image) -%}
    {%- for value in values if value.kind == 'condition' -%}
        {{ image }}_v{{ values.index(value) }} is distinct from 'false' and{{ ' ' }}
    {%- endfor -%}
    true
{%- endmacro %}
