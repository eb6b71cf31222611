{# The body of a model that holds a table's rows as they are at the position that the model has
   reached.

   table    'schema.table'.
   key      the columns that tell its rows apart, as a list: its primary key.
   columns  {column: type}, the key's among them; {column: {from: slot}} in the key for a table of
            several databases. #}
{% macro current_rows(table, key, columns) %}
{%- set declared = waltally.declare_current_rows(table, key, columns) -%}
{{- config(
    materialized='waltally_fact',
    meta={'waltally': declared, 'derived': {}},
) -}}
-- depends_on: {{ ref('waltally', 'rejected_changes') }}, which list_rejections fills
-- depends_on: {{ source('cdc', 'baseline_group') }}
{{ waltally.read_row_changes(declared) }}
{% endmacro %}
