{# Forget a model that was deleted or renamed, in every schema, as `loader forget` does: its table stays.
   dbt run-operation waltally.forget --args '{model: ft_orders}' #}
{% macro forget(model) %}
    {%- call statement('forget', fetch_result=true, auto_begin=true) -%}
        select array_to_string({{ waltally.get_staging_schema() }}.forget_model({{ waltally.quote_literal(model) }}), ', ')
    {%- endcall -%}
    {%- do adapter.commit() -%}
    {%- set relations = load_result('forget').table.columns[0][0] -%}
    {%- if not relations -%}
        {{ exceptions.raise_compiler_error('No model ' ~ model ~ ' is installed. Try: `loader stats` lists the models.') }}
    {%- endif -%}
    {%- do log('forgot ' ~ relations ~ '; the table stays', info=true) -%}
{% endmacro %}
