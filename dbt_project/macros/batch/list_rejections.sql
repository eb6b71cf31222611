{# A step of a fact's routine: put the changes that could not be counted into rejected_changes. The caller
   asks for it only where there are some, with every change by itself. #}
{% macro list_rejections(declared, listed) %}
with deltas as (
    {{ waltally.compute_deltas(declared, 'unnest($3)', '($4)', '($5)', '$2') }}
)

insert into {{ listed }} (
    fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
)
select
    {{ waltally.quote_literal(waltally.get_model_key()) }},
    log.slot_name,
    log.commit_lsn,
    log.ordinal,
    log.xid,
    log.committed_at,
    {{ waltally.name_source_table(declared, 'deltas.part') }},
    deltas.action,
    deltas.rejected_reason,
    log.payload
from deltas
inner join {{ waltally.get_staging_schema() }}.change_log as log
    on log.slot_name = $2 and log.commit_lsn = deltas.commit_lsn and log.ordinal = deltas.ordinal
where deltas.rejected_reason is not null;
{% endmacro %}
