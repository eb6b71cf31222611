{# SQL text: ` and ...` that keeps to the rows of one slot, empty where all rows are of one slot. #}
{% macro write_slot_filter(declared, slot, prefix='') -%}
    {%- for dimension in declared.dimensions if dimension.kind == 'slot' %} and {{ prefix }}{{ waltally.quote_name(dimension.name) }} = {{ slot }}
    {%- endfor -%}
{%- endmacro %}
