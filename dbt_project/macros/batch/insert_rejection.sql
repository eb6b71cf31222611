{# SQL: put changes of the log that could not be counted into rejected_changes; FROM and WHERE come after it, with
   the change log as `log`. `part`, `action` and `reason` are SQL. #}
{% macro insert_rejection(declared, listed, part, action, reason) -%}
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
    {{ waltally.name_source_table(declared, part) }},
    {{ action }},
    {{ reason }},
    log.payload
{%- endmacro %}
