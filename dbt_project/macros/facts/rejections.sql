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

{# A step of a routine's rebuild: list anew what could not be counted, beginning with the rows that the seed
   could not count, one line for each table and reason. #}
{% macro list_baseline_rejections(declared, listed) %}
delete from {{ listed }} as old
where
    old.fact = {{ waltally.quote_literal(waltally.get_model_key()) }}
    {%- if declared.dimensions | selectattr('kind', 'equalto', 'slot') | list %}
    and old.slot_name = $2
    {%- endif %};
insert into {{ listed }} (
    fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
)
select
    {{ waltally.quote_literal(waltally.get_model_key()) }},
    baseline.slot_name,
    baseline.snapshot_lsn,
    -row_number() over (order by rejected.part, rejected.reason),
    0,
    baseline.counted_at,
    {{ waltally.name_source_table(declared, 'rejected.part') }},
    'baseline',
    rejected.reason,
    jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
from {{ waltally.get_staging_schema() }}.baseline_rejection as rejected
inner join {{ waltally.get_staging_schema() }}.baseline as baseline
    on
        baseline.slot_name = rejected.slot_name
        and baseline.fact_name = rejected.fact_name
where
    baseline.slot_name = $2
    and baseline.fact_name = {{ waltally.quote_literal(model.name) }};
{% endmacro %}

{# SQL text: the table as schema.name for the name that the model gives to it; null for null. #}
{% macro name_source_table(declared, part) -%}
    case {{ part }}
        {%- for table in declared.tables %}
        when {{ waltally.quote_literal(table.name) }} then {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}
        {%- endfor %}
    end
{%- endmacro %}
