{# SQL text: have the expressions of the derived columns changed since the last build? #}
{% macro is_redefined() -%}
    coalesce({{ waltally.get_batch_setting('redefined') }} = 'on', false)
{%- endmacro %}
