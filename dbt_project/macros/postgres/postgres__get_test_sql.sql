{# Overrides dbt so that data tests pin their settings too: a role's setting could fail a test, and
   a failed test stops what is built after it. The pins are a statement of their own, because
   standard_conforming_strings decides how the next statement is read. A fact that waits has nothing
   to test. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {%- set tested = graph.nodes.get(model.get('attached_node')) -%}
    {%- set waits = tested is not none and tested.config.meta.waltally is defined
        and adapter.get_relation(target.database, tested.schema, tested.alias) is none -%}
    {%- set tested_sql = 'select 1 as waits where false' if waits else main_sql -%}
    {{ default__get_test_sql(tested_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}
