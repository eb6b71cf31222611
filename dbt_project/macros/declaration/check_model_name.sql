{# Refuse a name for the model that its index or dbt would turn into something else. #}
{% macro check_model_name() %}
    {%- set own = ['ft_service_stats', 'service_totals', 'rejected_changes'] -%}
    {#- A unit test has a name of its own. -#}
    {%- if model.resource_type == 'model' and model.name.encode('utf-8') | length > 48 -%}
        {%- do waltally.refuse_declaration(
            "the model's name has more than 48 bytes, and its index uix_" ~ model.name
            ~ '_dimensions would have more than 63; it takes a shorter name'
        ) -%}
    {%- elif model.name in own and model.package_name != 'waltally' -%}
        {#- dbt describes models by name, also a disabled one of another package. -#}
        {%- do waltally.refuse_declaration(
            'the package waltally describes a model of this name, and dbt would apply its columns and '
            ~ 'tests to this one; it takes another name'
        ) -%}
    {%- endif -%}
{% endmacro %}
