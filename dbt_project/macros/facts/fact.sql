{# The body of a model that is a fact: what it counts is declared here and nowhere else.

   tables      {name: 'schema.table'}, or {name: {table, deletes: ignore, columns: {name: column of
               this table}}}.
   dimensions  {column: type}; {column: {date_of, hour_of, week_of, month_of, quarter_of or year_of:
               column, timezone, column_timezone}}; {column: {from: slot}}; with nulls: count null is a group.
   measures    {column: {count: table}}, {column: {sum: column, of: table, type}}, {sum: {product:
               [column, column]}}; without a table, all tables; with where as below.
   where       {column: {in: [values]}}, not_in, is_null, at_least, below: which rows count.
   derived     {column: SQL expression of the measures}; it must be defined where they are zero or
               negative, as what a batch adds can be.
   engine      'database', or 'spark': then spark/apply.py applies the changes, and cdc.apply does not.

   Every batch is added to the table, a rebuild too: baseline + deltas - what the table holds. So
   readers see the old totals or the new ones, and any cut into batches gives the same. #}
{% macro fact(tables, dimensions, measures, where={}, derived={}, engine='database') %}
{%- do waltally.check_arguments({
    'tables': tables, 'dimensions': dimensions, 'measures': measures, 'where': where, 'derived': derived, 'engine': engine,
}, kwargs) -%}
{%- if engine not in ['database', 'spark'] -%}
    {%- do waltally.refuse_declaration("engine is " ~ tojson(engine) ~ "; use 'database' or 'spark'") -%}
{%- endif -%}
{{- waltally.configure_model(waltally.declare_fact(tables, dimensions, measures, where, derived), derived, engine) }}
{% endmacro %}
