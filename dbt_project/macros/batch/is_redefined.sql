{# SQL text: has what the model declares changed since the last build, derived columns included? #}
{% macro is_redefined() -%}
    coalesce({{ waltally.get_batch_setting('redefined') }} = 'on', false)
{%- endmacro %}
