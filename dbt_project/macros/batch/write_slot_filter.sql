{# SQL text: ` where ...` that keeps to the rows of this slot, empty where all rows are of one slot.
   #}
{% macro write_slot_filter(declared) -%}
    {%- for dimension in declared.dimensions if dimension.kind == 'slot' %}
    {{- ' where ' if loop.first else ' and ' -}}
    {{ waltally.quote_name(dimension.name) }} = '{{ waltally.get_slot_name() }}'
    {%- endfor -%}
{%- endmacro %}
