{# Names as SQL wants them, one after the other. #}
{% macro quote_names(names) -%}
    {%- for name in names -%}{{ waltally.quote_name(name) }}{{ ', ' if not loop.last }}{%- endfor -%}
{%- endmacro %}
