{# The columns of a relation as {name: type as PostgreSQL prints it}. #}
{% macro list_columns_of(relation) %}
    {%- set columns = {} -%}
    {%- for name, type in run_query(
        'select attname::text, pg_catalog.format_type(atttypid, atttypmod) '
        ~ 'from pg_catalog.pg_attribute '
        ~ 'where attrelid = pg_catalog.to_regclass('
        ~ waltally.quote_literal(relation.include(database=false) | string)
        ~ ') and attnum > 0 and not attisdropped'
    ).rows -%}
        {%- do columns.update({name: type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}
