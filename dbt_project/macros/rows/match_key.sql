{# SQL text: is the stored row the one that the image of a change names? #}
{% macro match_key(declared, image) -%}
    {%- for column in declared.dimensions if column.name in declared.key -%}
        {{ ' and ' if not loop.first }}stored.{{ waltally.quote_name(column.name) }} = change.{{ image }}_{{ declared.dimensions.index(column) }}
    {%- endfor -%}
{%- endmacro %}
