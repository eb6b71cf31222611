{# Whether this role may read a column of a table, [schema, name]; false where there is no such
   column. #}
{% macro can_read_column(names, column) %}
    {%- set answer = waltally.run_pinned(
        "select coalesce(bool_or(has_schema_privilege(schemas.oid, 'usage') "
        ~ "and has_column_privilege(tables.oid, columns.attnum, 'select')), false) "
        ~ 'from pg_catalog.pg_class as tables '
        ~ 'inner join pg_catalog.pg_namespace as schemas on schemas.oid = tables.relnamespace '
        ~ 'inner join pg_catalog.pg_attribute as columns on columns.attrelid = tables.oid '
        ~ 'where schemas.nspname = ' ~ waltally.quote_literal(names[0]) ~ ' and tables.relname = '
        ~ waltally.quote_literal(names[1]) ~ ' and columns.attname = ' ~ waltally.quote_literal(column)
    ) -%}
    {{ return(answer.rows[0][0]) }}
{% endmacro %}
