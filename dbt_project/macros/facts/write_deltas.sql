{# SQL: the function that has a fact's delta rules: changes as signed rows. Its routine calls it in several steps. The
   server puts its query into those of the routine and plans both as one, because it is in the language sql, stable and
   without settings of its own; so it costs nothing. The types of its columns must be exactly those of the query.

   It is dropped first: a function's columns cannot be changed in place. #}
{% macro write_deltas(deltas, declared) %}
{%- set takes -%}
    slot text,
    changes {{ waltally.get_staging_schema() }}.change[],
    table_nos integer[],
    places integer[]
{%- endset %}
drop function if exists {{ deltas }}({{ takes }});
create function {{ deltas }}(
    {{ takes }}
) returns table (
    part text,
    action text,
    commit_lsn pg_lsn,
    ordinal bigint,
    rejected_reason text,
    is_ignored boolean,
    change_count bigint,
    last_lsn pg_lsn,
    {%- for dimension in declared.dimensions %}
    d{{ loop.index0 }} {{ dimension.type }},
    {%- endfor %}
    {%- for value in waltally.list_values(declared) if value.kind == 'sum' %}
    s{{ loop.index0 }} numeric,
    {%- endfor %}
    {%- for measure in declared.measures if measure.where %}
    is_measured_{{ declared.measures.index(measure) }} boolean,
    {%- endfor %}
    sign integer,
    left_out bigint
)
language sql stable
as $deltas$
{{ waltally.compute_deltas(declared, 'unnest($2)', '($3)', '($4)', '$1') }}
$deltas$
{% endmacro %}
