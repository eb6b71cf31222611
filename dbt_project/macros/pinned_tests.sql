{# Tests pin their settings too: else a role's setting could fail one, and with it what it gates. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {{ pin_session() }};
    {{ default__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}

{# A unit test makes an empty temporary table, which is a write. It is its first statement, or its
   second where it expects no rows: then it asks for the columns first. #}
{% macro postgres__get_create_table_as_sql(temporary, relation, sql) -%}
    {{ pin_unit_test() }}
    {{ create_table_as(temporary, relation, sql) }}
{%- endmacro %}

{% macro postgres__get_columns_in_query(select_sql) %}
    {% call statement('get_columns_in_query', fetch_result=true, auto_begin=false) -%}
        {{ pin_unit_test() }}
        {{ get_empty_subquery_sql(select_sql) }}
    {%- endcall %}
    {{ return(load_result('get_columns_in_query').table.columns | map(attribute='name') | list) }}
{% endmacro %}

{% macro pin_unit_test() -%}
    {%- if model.resource_type == 'unit_test' %}
    {{ pin_transaction() }};
    {%- endif %}
{%- endmacro %}
