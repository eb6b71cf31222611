-- Each model of the slot follows, or this warns of what it waits for: a new one for its seed.
-- Named here: what is built before it, and a source that no model reads, as in no_rejected_changes.
{{ config(severity='warn') }}
{%- if var('notify_models', project_name == 'waltally') %}
-- depends_on: {{ ref('ft_service_stats') }}
{%- endif %}
-- depends_on: {{ source('cdc', 'slot_position') }}
-- depends_on: {{ ref('waltally', 'rejected_changes') }}
{% set waiting %}
select
    models.model_name,
    models.state,
    models.reason,
    models.remedy
from {{ waltally.get_staging_schema() }}.model_state as models
where
    models.slot_name operator(pg_catalog.=) {{ waltally.quote_literal(waltally.get_slot_name()) }}
    and models.state operator(pg_catalog.<>) 'follows'
{% endset %}
{% do waltally.log_models(waiting) %}
{{ waiting }}
