{# Set everything that a transaction of this project relies on, for this transaction: no `alter role
   ... set` and no `alter database ... set` may stop a build or change a number.

   Timeouts are off: dbt computes between its statements, and a large batch takes long. Values are
   printed and read in one way, or the ids of a model's groups would change. Names are those of
   pg_catalog. All other names are qualified, so nobody can put a function of the same name first.
   Row security is off, which makes a policy an error: it would hide rows without a word. Commits do
   not wait for a standby. Model and watermark are one transaction, so a server that loses the last
   commit loses both, and the next build applies the same batch.

   waltally/session_settings.py has the values; a test compares them. #}
{% macro pin_session() %}
do $pin_session$
begin
    perform
        pg_catalog.set_config('statement_timeout', '0', true),
        pg_catalog.set_config('lock_timeout', '0', true),
        pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
        -- Only PostgreSQL 17 and later know this one.
        case
            when pg_catalog.current_setting('transaction_timeout', true) is not null
                then pg_catalog.set_config('transaction_timeout', '0', true)
        end,
        pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
        pg_catalog.set_config('standard_conforming_strings', 'on', true),
        pg_catalog.set_config('transform_null_equals', 'off', true),
        pg_catalog.set_config('quote_all_identifiers', 'off', true),
        pg_catalog.set_config('row_security', 'off', true),
        pg_catalog.set_config('array_nulls', 'on', true),
        pg_catalog.set_config('timezone_abbreviations', 'Default', true),
        pg_catalog.set_config('synchronous_commit', 'local', true),
        pg_catalog.set_config('DateStyle', 'ISO, YMD', true),
        pg_catalog.set_config('IntervalStyle', 'postgres', true),
        pg_catalog.set_config('TimeZone', 'UTC', true),
        pg_catalog.set_config('extra_float_digits', '1', true),
        pg_catalog.set_config('bytea_output', 'hex', true),
        pg_catalog.set_config('jit', 'off', true);
end
$pin_session$
{% endmacro %}

{# The settings of pin_session for a transaction that writes. It comes before the transaction's
   first query, because PostgreSQL allows no change of the isolation level after one. #}
{% macro pin_transaction() %}
    set transaction isolation level read committed, read write;
    {{ waltally.pin_session() }}
{% endmacro %}

{# Pin the settings of a unit test, with the time zone that the file of its model names. dbt may have queried columns in the same transaction, so a new
   one is begun: PostgreSQL allows no change of the isolation level after a query. A rollback would
   undo the profile's `set role`, for the models that this connection builds later too. #}
{% macro pin_unit_test() -%}
    {%- if model.resource_type == 'unit_test' -%}
        {% call statement('pins') %}
            commit;
            begin;
            {{ waltally.pin_transaction() }}
        {% endcall %}
        {#- Of the model that is tested dbt tells the text alone. The zone is a constant there, or a call: var('zone'). -#}
        {%- set timezone = modules.re.search(
            '(?s)config\\s*\\((?:(?!}}).)*?\\btimezone\\s*=\\s*(\\w+\\([^)]*\\)|[^,)\\s]+)', model.raw_code
        ) -%}
        {%- if timezone -%}
            {% call statement('zone') %}
                select pg_catalog.set_config('TimeZone', {{ waltally.quote_literal(render('{{ ' ~ timezone.group(1) ~ ' }}')) }}, true)
            {% endcall %}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
