{# What bound_batch decided for this transaction: from_lsn, to_lsn, rebuild, seed_id. SQL text,
   null where no build set it: ad hoc queries, unit tests, tests of ephemeral models. #}
{% macro batch_setting(name) -%}
    nullif(current_setting('waltally.{{ name }}', true), '')
{%- endmacro %}

{# SQL text: is this batch a rebuild? A macro of its own so that unit tests can override it. #}
{% macro is_rebuild() -%}
    coalesce({{ batch_setting('rebuild') }} = 'on', false)
{%- endmacro %}
