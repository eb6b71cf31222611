{# The body of a model that is a roll-up: a fact of a finer fact, kept in the transaction that changes that one.

   fact        ref() of a fact or of another roll-up; it comes before lookups.
   lookups     {name: {'rows': ref() of current rows, 'by': {column of their key: column of the fact, or
               of a lookup before}}}: the one row with that key; where there is none its columns are null.
   dimensions  {column: column of the fact, or 'lookup.column'}. Null is a group.
   measures    {column: {sum: measure of the fact}}, {column: {distinct, min or max: column of the fact or of
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
-- depends_on: {{ source('cdc', 'change_log') }}
{% if execute -%}
    {{ waltally.select_nothing(waltally.resolve_roll_up(), derived) }}
{%- endif %}
{% endmacro %}
