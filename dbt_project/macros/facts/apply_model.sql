{# The last step of the materialization: call cdc.apply until the model holds what is staged, or waits. A model
   that somebody else builds at this moment is waited for, and one that is locked for half a minute. Front and
   behind are transactions of their own, so that the models that follow do not wait for a rebuild. #}
{% macro apply_model() %}
    {%- set apply = waltally.get_staging_schema() ~ '.apply(' ~ waltally.quote_literal(waltally.get_slot_name()) -%}
    {%- set found = namespace(row=none, waits=30) -%}
    {%- for _ in range(100000) -%}
        {% call statement('front', fetch_result=true) %}
            {{ waltally.pin_transaction() }};
            select coalesce(bool_or(is_behind), false) as is_behind from {{ apply }}, 'front')
        {% endcall %}
        {%- do adapter.commit() -%}
        {% call statement('behind', fetch_result=true) %}
            {{ waltally.pin_transaction() }};
            select state, reason, remedy, applied_lsn::text, is_behind
            from {{ apply }}, 'behind')
            where model_name = {{ waltally.quote_literal(waltally.get_model_key()) }}
        {% endcall %}
        {%- do adapter.commit() -%}
        {%- set found.row = load_result('behind').table.rows[0] -%}
        {%- if found.row.state == 'failed' and found.row.reason.startswith('it could not be locked') and found.waits -%}
            {% call statement('pause') %}select pg_catalog.pg_sleep(1){% endcall %}
            {%- do adapter.commit() -%}
            {%- set found.waits = found.waits - 1 -%}
        {%- elif not found.row.is_behind and not load_result('front').table.rows[0].is_behind -%}
            {%- break -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set row = found.row -%}
    {%- if row.state == 'failed' -%}
        {% call statement('failed') %}
do $failed$
begin
    raise exception using
        message = {{ waltally.quote_literal(model.name ~ ': ' ~ row.reason) }},
        hint = {{ waltally.quote_literal(row.remedy) }};
end
$failed$
        {% endcall %}
    {%- endif -%}
    {% call noop_statement(
        'main',
        'WAITS: ' ~ row.reason ~ '; run ' ~ row.remedy if row.state == 'waits' else 'APPLIED up to ' ~ row.applied_lsn
    ) %}{{ model.compiled_code }}{% endcall %}
{% endmacro %}
