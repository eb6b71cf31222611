{# The rows of stg_truncates for a unit test: none, or one of the live part. #}
{% macro make_truncate(at=none) %}
select
    'live'::text as part,
    '{{ at or '0/0' }}'::pg_lsn as commit_lsn,
    1::bigint as ordinal
where {{ at is not none }}
{% endmacro %}
