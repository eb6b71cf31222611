{# The body of a model that shows what a declaration makes of the change log, for unit tests: the
   deltas with the fact's own names, and `sum_of_<column>` for what is added to a sum. #}
{% macro show_deltas(tables, dimensions, measures, where={}) %}
{%- set declared = waltally.declare_fact(tables, dimensions, measures, where) -%}
{{- config(materialized='ephemeral', meta={'waltally_rules': declared}) -}}
select
    part,
    action,
    sign,
    change_count,
    last_lsn,
    left_out,
    rejected_reason,
    {%- for dimension in declared.dimensions %}
    d{{ loop.index0 }} as {{ waltally.quote_name(dimension.name) }},
    {%- endfor %}
    {%- for value in waltally.list_values(declared) if value.kind == 'sum' %}
    s{{ loop.index0 }} as {{ waltally.quote_name('sum_of_' ~ value.column) }},
    {%- endfor %}
    source_table
from (
    {{ waltally.compute_deltas(declared) }}
) as deltas
{% endmacro %}
