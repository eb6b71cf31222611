{# What bound_batch decided for this transaction: from_lsn, to_lsn, rebuild, redefined, seed_id; and
   what the model found in its batch: rejected_lsn, left_out. SQL text, null where no build set it: ad hoc queries, unit tests, tests of ephemeral models. #}
{% macro batch_setting(name) -%}
    nullif(current_setting('waltally.{{ name }}', true), '')
{%- endmacro %}

{# SQL text: are the derived columns to be computed anew for every group? #}
{% macro is_redefined() -%}
    coalesce({{ batch_setting('redefined') }} = 'on', false)
{%- endmacro %}

{# SQL text: is this batch a rebuild? A macro of its own so that unit tests can override it. #}
{% macro is_rebuild() -%}
    coalesce({{ batch_setting('rebuild') }} = 'on', false)
{%- endmacro %}
