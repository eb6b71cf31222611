{# Overrides dbt so that data tests pin their settings too: a role's setting could fail a test, and
   a failed test stops what is built after it. The pins are a statement of their own, because
   standard_conforming_strings decides how the next statement is read. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {{ default__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}
