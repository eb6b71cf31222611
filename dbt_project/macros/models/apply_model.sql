{# The last step of the materialization: call cdc.apply until the model holds what is staged, or waits. A model
   that somebody else builds at this moment is waited for, and one that is locked for half a minute. Models that have
   caught up and models that catch up have transactions of their own, so that the first do not wait for a rebuild. #}
{% macro apply_model(slot, is_dependent) %}
    {%- set apply = waltally.get_staging_schema() ~ '.apply(' ~ waltally.quote_literal(slot) -%}
    {#- A round that leaves something to do adds another; each knows how often it may still pause. -#}
    {%- set rounds, found = [30], namespace(row=none) -%}
    {%- for pauses in rounds -%}
        {% call statement('caught up', fetch_result=true) %}
            {{ waltally.pin_transaction() }};
            select
                coalesce(bool_or(is_behind), false) as is_behind,
                coalesce(bool_or(relation = {{ waltally.quote_literal(waltally.get_model_key()) }}), false) as is_moved
            from {{ apply }}, part => 'caught up')
        {% endcall %}
        {%- do adapter.commit() -%}
        {% call statement('catching up', fetch_result=true) %}
            {{ waltally.pin_transaction() }};
            select state, reason, remedy, applied_lsn::text, engine, is_locked, is_behind
            from {{ apply }}, part => 'catching up')
            where relation = {{ waltally.quote_literal(waltally.get_model_key()) }}
        {% endcall %}
        {%- do adapter.commit() -%}
        {%- set caught_up = load_result('caught up').table.rows[0] -%}
        {%- set row = load_result('catching up').table.rows[0] -%}
        {%- set found.row = row -%}
        {%- if row.is_locked and pauses -%}
            {% call statement('pause') %}select pg_catalog.pg_sleep(1){% endcall %}
            {%- do adapter.commit() -%}
            {%- do rounds.append(pauses - 1) -%}
        {%- elif row.is_behind or caught_up.is_behind -%}
            {%- do rounds.append(pauses) -%}
        {%- elif row.state == 'follows' and row.engine == 'database' and not (caught_up.is_moved or is_dependent or not pauses) -%}
            {#- Another session has built it or changed it between the two calls: neither has applied it to the end. -#}
            {%- do rounds.append(pauses - 1) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set row = found.row -%}
    {%- if row.state == 'failed' -%}
        {% call statement('failed') %}
do $failed$
begin
    raise exception using
        message = {{ waltally.quote_literal(waltally.get_model_name() ~ ': ' ~ row.reason) }},
        hint = {{ waltally.quote_literal(row.remedy) }};
end
$failed$
        {% endcall %}
    {%- endif -%}
    {% call noop_statement(
        'main',
        'WAITS: ' ~ row.reason ~ '. Try: ' ~ row.remedy if row.state == 'waits'
        else 'APPLIED up to ' ~ row.applied_lsn
            ~ ('; ' ~ row.reason ~ '. Try: ' ~ row.remedy if row.reason else '')
    ) %}{{ model.compiled_code }}{% endcall %}
{% endmacro %}
