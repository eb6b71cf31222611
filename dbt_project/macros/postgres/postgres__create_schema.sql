{# Overrides dbt to take a lock first: `if not exists` does not see the schema of another build that
   has not committed, so one of two first builds at once would fail. #}
{% macro postgres__create_schema(relation) -%}
    {%- for quote in ['"', "'"] if quote in relation.schema -%}
        {{ exceptions.raise_compiler_error(
            'dbt cannot write to the schema ' ~ relation.schema ~ ': choose a DBT_SCHEMA without '
            ~ quote ~ ' in its name.'
        ) }}
    {%- endfor -%}
    {%- call statement('create_schema') -%}
        {{ waltally.pin_transaction() }};
        select pg_advisory_xact_lock(hashtextextended('waltally schema {{ relation.schema }}', 0));
        create schema if not exists {{ relation.without_identifier().include(database=false) }}
    {%- endcall -%}
{% endmacro %}
