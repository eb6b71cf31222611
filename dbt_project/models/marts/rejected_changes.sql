{{ config(materialized='kept_table') }}

-- Each model inserts its rows in its own transaction.
select
    null::text as model_name,
    null::text as slot_name,
    null::pg_lsn as commit_lsn,
    null::bigint as ordinal,
    null::bigint as xid,
    null::timestamptz as committed_at,
    null::text as source_table,
    null::text as action,
    null::text as reason,
    null::text as payload
where false
