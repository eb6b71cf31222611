{# The body of a model that is a roll-up: a fact of a finer fact, kept in the transaction that changes that one.

   fact        ref() of a fact or of another roll-up.
   lookups     {name: {'rows': ref() of current rows, 'by': {column of their key: column of the fact, or
               of a lookup before}}}: the one row with that key; where there is none its columns are null.
   dimensions  {column: column of the fact, or 'lookup.column'}. Null is a group.
   measures    {column: {sum: measure of the fact, type}}, {column: {distinct, min or max: column of the fact or of
               a lookup}}, {column: {percentile: 0.95, of: column}}.
   present     the measure of the fact that is not zero where a group is there, and weighs it for a
               percentile; its first by default.
   derived     as of a fact. #}
{% macro roll_up(fact, dimensions, measures, lookups={}, present=none, derived={}) %}
{%- set declared = waltally.declare_roll_up(dimensions, measures, lookups, present, derived) -%}
{{- config(
    materialized='waltally_fact',
    meta={'waltally_roll_up': declared, 'derived': derived},
) -}}
-- depends_on: {{ ref('waltally', 'rejected_changes') }}, where the routine lists what it cannot hold
-- depends_on: {{ source('cdc', 'change_log') }}
{% if execute -%}
    {#- Only here ref() gives the models that it names. The materialization reads it in this line. -#}
    {%- set rows = {} -%}
    {%- for name, lookup in lookups.items() -%}
        {%- do rows.update({name: lookup.rows}) -%}
    {%- endfor -%}
    {%- set resolved = waltally.resolve_roll_up(declared, fact, rows) -%}
    {%- if resolved is none -%}
-- {{ fact.identifier }}, which it is made of, is not installed yet.
    {%- else -%}
-- roll-up: {{ tojson(resolved) }}
    {{ waltally.select_nothing(resolved, derived) }}
    {%- endif %}
{%- endif %}
{% endmacro %}

{# What a roll-up is made of, as its compiled model says. #}
{% macro read_resolved(compiled) %}
    {%- set found = modules.re.search('(?m)^-- roll-up: (.*)$', compiled) -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ' is made of a roll-up that is not installed: run dbt build --select +' ~ model.name
        ) -%}
    {%- endif -%}
    {{ return(fromjson(found[1])) }}
{% endmacro %}
