-- The counts of a model lack each change that it rejected. A seed counts the change and clears the
-- list, once the cause is corrected: `loader status` says how.
-- Two more names are needed here. The model, to be built before this test. And a source that no
-- model reads: dbt skips the models that are downstream of everything that a failed test names, and
-- a rejected change must not stop them.
{%- if var('notify_models', project_name == 'waltally') %}
-- depends_on: {{ ref('ft_service_stats') }}
{%- endif %}
-- depends_on: {{ source('cdc', 'slot_position') }}
select * from {{ ref('waltally', 'rejected_changes') }}
