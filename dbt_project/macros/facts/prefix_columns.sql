{# The columns of one image: old_a, old_b. #}
{% macro prefix_columns(image, columns) -%}
    {%- for column in columns %}{{ image }}_{{ column }}{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}
