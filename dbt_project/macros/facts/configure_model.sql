{# The body of a model that is declared: its columns, and no rows. The materialization installs the routine
   that fills the table. #}
{% macro configure_model(declared, derived, engine='database') %}
{{- config(
    materialized='waltally_fact',
    meta={'waltally': declared, 'derived': derived, 'engine': engine},
) -}}
-- depends_on: {{ ref('waltally', 'rejected_changes') }}, where the routine lists what it cannot count
-- depends_on: {{ source('cdc', 'change_log') }}
-- depends_on: {{ source('cdc', 'baseline_group') }}
{{ waltally.select_nothing(declared, derived) }}
{% endmacro %}
