{# A step of a fact's routine: put the changes that could not be counted into rejected_changes. The caller
   asks for it only where there are some, with every change by itself. #}
{% macro list_rejections(declared, listed) %}
with deltas as (
    {{ waltally.compute_deltas(declared, 'unnest($3)', '($4)', '($5)', '$2') }}
)

{{ waltally.insert_rejection(declared, listed, 'deltas.part', 'deltas.action', 'deltas.rejected_reason') }}
from deltas
inner join {{ waltally.get_staging_schema() }}.change_log as log
    on log.slot_name = $2 and log.commit_lsn = deltas.commit_lsn and log.ordinal = deltas.ordinal
where deltas.rejected_reason is not null;
{% endmacro %}
