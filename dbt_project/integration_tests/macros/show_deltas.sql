{# The body of a model that shows what a declaration makes of the change log, for unit tests: the
   deltas with the fact's own names, `sum_of_<column>` for a value that is summed, and `adds_<measure>` for what
   the changes add to a measure, before their sign. #}
{% macro show_deltas(tables, dimensions, measures, where={}) %}
{%- set declared = waltally.declare_fact(tables, dimensions, measures, where) -%}
{{- config(materialized='ephemeral', meta={'waltally_rules': declared}) -}}
{%- set readables = waltally.list_readables([declared]) -%}
{%- set table_nos, places = [], [] -%}
{%- for table in declared.tables -%}
    {%- for readable in readables if (readable.schema, readable.table) == (table.schema, table.table) -%}
        {%- do table_nos.append(readables.index(readable) + 1) -%}
        {%- set row = [] -%}
        {%- for need in waltally.list_needs(declared, table) -%}
            {%- do row.append('null' if need is none else readable['values'].index(need) + 1) -%}
        {%- endfor -%}
        {%- do places.append('array[' ~ row | join(', ') ~ ']::integer[]') -%}
    {%- endfor -%}
{%- endfor -%}
{%- set slot = waltally.quote_literal(waltally.get_slot_name()) -%}
with batch as (
    {{ waltally.read_batch(readables, slot) }}
)

select
    part,
    action,
    sign,
    change_count,
    last_lsn,
    left_out,
    rejected_reason,
    is_ignored,
    {%- for dimension in declared.dimensions %}
    d{{ loop.index0 }} as {{ waltally.quote_name(dimension.name) }},
    {%- endfor %}
    {%- for value in waltally.list_values(declared) if value.kind == 'sum' %}
    s{{ loop.index0 }} as {{ waltally.quote_name('sum_of_' ~ value.column) }},
    {%- endfor %}
    {%- for measure in declared.measures %}
    {{ waltally.measure_delta(declared, measure) }} as {{ waltally.quote_name('adds_' ~ measure.name) }}{{ ',' if not loop.last }}
    {%- endfor %}
from (
    {{ waltally.compute_deltas(
        declared,
        'batch',
        '(array[' ~ table_nos | join(', ') ~ '])',
        '(array[' ~ places | join(', ') ~ '])',
        slot,
    ) }}
) as deltas
{% endmacro %}
