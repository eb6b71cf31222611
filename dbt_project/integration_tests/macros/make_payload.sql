{# A row of the change log for a unit test with any payload. `action` is what the loader notes where
   the payload is in wal2json's own form. #}
{% macro make_payload(payload, action=none, at='0/10', ordinal=1) %}
select
    '{{ waltally.get_slot_name() }}'::text as slot_name,
    '{{ at }}'::pg_lsn as commit_lsn,
    {{ ordinal }}::bigint as ordinal,
    1::bigint as xid,
    now() as committed_at,
    {{ "'" ~ action ~ "'" if action else 'null' }}::"char" as action,
    '{{ payload | replace("'", "''") }}'::text as payload
{% endmacro %}
