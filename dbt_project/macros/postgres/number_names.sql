{# v0, v1, v2: names inside a query for so many columns, whatever the fact calls its own. #}
{% macro number_names(prefix, count) -%}
    {%- for place in range(count) -%}{{ prefix }}{{ place }}{{ ', ' if not loop.last }}{%- endfor -%}
{%- endmacro %}
