{# The settings of pin_session for a transaction that writes. It comes before the transaction's
   first query, because PostgreSQL allows no change of the isolation level after one. #}
{% macro pin_transaction() %}
    set transaction isolation level read committed, read write;
    {{ waltally.pin_session() }}
{% endmacro %}
