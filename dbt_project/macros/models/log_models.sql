{# Say in dbt's log which models these are, and why. A test that warns says how many rows it has found, and names none. #}
{% macro log_models(query) %}
    {%- if execute and flags.WHICH in ('build', 'test') -%}
        {%- for model in run_query(query).rows -%}
            {%- do log(model.model_name ~ ' ' ~ model.state ~ ': ' ~ model.reason ~ '. Try: ' ~ model.remedy, info=true) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
