{# Overrides dbt so that a unit test pins its settings: it makes a temporary table, which fails
   where the role's transactions are read-only. #}
{% macro postgres__get_create_table_as_sql(temporary, relation, sql) -%}
    {{ waltally.pin_unit_test() }}
    {{ create_table_as(temporary, relation, sql) }}
{%- endmacro %}
