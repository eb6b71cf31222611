{# SQL text: does this batch start from the baseline instead of from the table? #}
{% macro is_rebuild() -%}
    coalesce({{ waltally.get_batch_setting('rebuild') }} = 'on', false)
{%- endmacro %}
