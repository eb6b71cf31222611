{# Texts as a list of SQL strings. #}
{% macro quote_literals(texts) -%}
    {%- for text in texts -%}{{ waltally.quote_literal(text) }}{{ ', ' if not loop.last }}{%- endfor -%}
{%- endmacro %}
