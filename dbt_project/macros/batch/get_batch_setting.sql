{# SQL text: what this transaction has noted under a name, null where it noted nothing: in an ad hoc
   query, a unit test or a test of an ephemeral model.

   bound_batch notes from_lsn, to_lsn, rebuild, redefined, baseline_id and waits; the model's own
   query notes rejected_lsn and left_out (record_uncounted). #}
{% macro get_batch_setting(name) -%}
    nullif(current_setting('waltally.{{ name }}', true), '')
{%- endmacro %}
