{# A table of the source, [schema, name], as a relation, or none where this database lacks it. #}
{% macro source_table(names) %}
    {{ return(adapter.get_relation(target.database, names[0], names[1]) if execute else none) }}
{% endmacro %}

{# Whether this role may read a column of a table, [schema, name], of this database. #}
{% macro may_read(names, column) %}
    {%- set answer = run_query(
        "select coalesce(bool_or(has_schema_privilege(schemas.oid, 'usage') "
        ~ "and has_column_privilege(tables.oid, columns.attnum, 'select')), false) "
        ~ 'from pg_catalog.pg_class as tables '
        ~ 'inner join pg_catalog.pg_namespace as schemas on schemas.oid = tables.relnamespace '
        ~ 'inner join pg_catalog.pg_attribute as columns on columns.attrelid = tables.oid '
        ~ 'where schemas.nspname = ' ~ literal(names[0]) ~ ' and tables.relname = '
        ~ literal(names[1]) ~ ' and columns.attname = ' ~ literal(column)
    ) -%}
    {{ return(answer.rows[0][0]) }}
{% endmacro %}
