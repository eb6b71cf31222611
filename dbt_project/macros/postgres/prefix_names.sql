{# Names as SQL wants them, each of a relation. #}
{% macro prefix_names(relation, names) -%}
    {%- for name in names -%}
        {{ relation }}.{{ waltally.quote_name(name) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
