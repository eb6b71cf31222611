{# The body of a model that holds a table's rows as they are at the position that the model has
   reached.

   table    'schema.table'.
   key      the columns that tell its rows apart, as a list: its primary key.
   columns  {column: type}, the key's among them; {column: {from: slot}} in the key for a table of
            several databases. #}
{% macro current_rows(table, key, columns) %}
{%- do waltally.check_arguments({'table': table, 'key': key, 'columns': columns}, kwargs) -%}
{{- waltally.configure_model(waltally.declare_current_rows(table, key, columns), {}) }}
{% endmacro %}
