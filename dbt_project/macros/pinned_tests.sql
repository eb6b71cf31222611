{# Tests pin their settings too: else a role's setting could fail one, and with it what it gates. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {{ pin_session() }};
    {{ default__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}

{# A unit test makes an empty temporary table, which is a write. dbt may have looked at columns in the
   same transaction, so a new one is begun: no query may come before what pins it. #}
{% macro postgres__get_create_table_as_sql(temporary, relation, sql) -%}
    {%- if model.resource_type == 'unit_test' %}
    rollback;
    begin;
    {{ pin_transaction() }};
    {%- endif %}
    {{ create_table_as(temporary, relation, sql) }}
{%- endmacro %}
