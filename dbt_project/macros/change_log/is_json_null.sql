{# SQL text: is the value of read_image_value JSON's null? #}
{% macro is_json_null(value) -%}
    {{ value }} = '\null'
{%- endmacro %}
