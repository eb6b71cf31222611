{# Pin the settings of a unit test. dbt may have queried columns in the same transaction, so a new
   one is begun: PostgreSQL allows no change of the isolation level after a query. A rollback would
   undo the profile's `set role`, for the models that this connection builds later too. #}
{% macro pin_unit_test() -%}
    {%- if model.resource_type == 'unit_test' -%}
        {% call statement('pins') %}
            commit;
            begin;
            {{ waltally.pin_transaction() }}
        {% endcall %}
    {%- endif -%}
{%- endmacro %}
