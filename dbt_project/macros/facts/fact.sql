{# The body of a model that is a fact: what it counts is declared here and nowhere else.

   tables      {name: 'schema.table'}, or {name: {table, deletes: ignore, columns: {name: column of
               this table}}}.
   dimensions  {column: type}; {column: {type, date_of or month_of: column, timezone,
               column_timezone}}; {column: {from: slot}}; with nulls: count null is a group.
   measures    {column: {count: table}}, {column: {sum: column, of: table, type}}; without a table,
               all tables.
   where       {column: {in: [values]}}, not_in, is_null: which rows count.
   derived     {column: SQL expression of the measures}; it must be defined where they are zero or
               negative, as what a batch adds can be.

   Every batch is added to the table, a rebuild too: baseline + deltas - what the table holds. So
   readers see the old totals or the new ones, and any cut into batches gives the same. #}
{% macro fact(tables, dimensions, measures, where={}, derived={}) %}
{{- waltally.configure_model(waltally.declare_fact(tables, dimensions, measures, where, derived), derived) }}
{% endmacro %}
