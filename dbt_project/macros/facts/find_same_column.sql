{# SQL: a column of another table that has the name and the type of this one. #}
{% macro find_same_column(column, table) -%}
    select
    from pg_attribute as other
    where
        other.attrelid = {{ table }} and other.attnum > 0 and not other.attisdropped
        and (other.attname, other.atttypid, other.atttypmod)
        = ({{ column }}.attname, {{ column }}.atttypid, {{ column }}.atttypmod)
{%- endmacro %}
