{# Tests pin their settings too: else a role's setting could fail one, and with it what it gates. In
   a statement of its own, as standard_conforming_strings tells how the next one is read. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {% call statement('pins') %}{{ pin_session() }}{% endcall %}
    {{ default__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}

{# A unit test makes an empty temporary table, which is a write. Where it expects no rows it asks
   for the columns before that. #}
{% macro postgres__get_create_table_as_sql(temporary, relation, sql) -%}
    {{ pin_unit_test() }}
    {{ create_table_as(temporary, relation, sql) }}
{%- endmacro %}

{% macro postgres__get_columns_in_query(select_sql) %}
    {{ pin_unit_test() }}
    {{ return(default__get_columns_in_query(select_sql)) }}
{% endmacro %}

{# dbt may have looked at columns in the same transaction, so a new one is begun: no query may come
   before what pins it. #}
{% macro pin_unit_test() -%}
    {%- if model.resource_type == 'unit_test' -%}
        {% call statement('pins') %}
            rollback;
            begin;
            {{ pin_transaction() }}
        {% endcall %}
    {%- endif -%}
{%- endmacro %}
