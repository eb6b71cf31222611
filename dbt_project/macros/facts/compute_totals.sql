{# What a batch adds to each group of a fact, with the names of the fact's columns. #}
{% macro compute_totals(declared, derived) %}
{%- set reads_table = waltally.has_declared_columns(declared) -%}
{%- set count = declared.measures | length -%}
{%- set keys = waltally.number_names('d', declared.dimensions | length) -%}
with deltas as materialized (
    {{ waltally.compute_deltas(declared) }}
),

contributions as (
    {{ waltally.collect_contributions(declared, reads_table) }}
),

totals as (
    select
        {{ keys }},
        {%- for measure in declared.measures %}
        sum(m{{ loop.index0 }})::{{ measure.type }} as m{{ loop.index0 }}{{ ',' if not loop.last }}
        {%- endfor %}
    from contributions
    group by {{ keys }}
    -- A group of the table stays: its derived columns may have to be corrected.
    having
        {%- for measure in declared.measures %}
        sum(m{{ loop.index0 }}) <> 0 or
        {%- endfor %}
        bool_or(is_stored)
)

select
    -- The same group has the same id, however often the fact is rebuilt.
    md5(row({{ keys }})::text)::uuid as id,
    {%- for dimension in declared.dimensions %}
    totals.d{{ loop.index0 }} as {{ waltally.quote_name(dimension.name) }},
    {%- endfor %}
    {%- for column, expression in derived.items() %}
    {{ expression }} as {{ waltally.quote_name(column) }},
    {%- endfor %}
    {%- for measure in declared.measures %}
    measures.{{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
    {%- endfor %}
from totals
cross join lateral (
    select
        {%- for measure in declared.measures %}
        totals.m{{ loop.index0 }} as {{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
) as measures
where {{ waltally.record_uncounted('deltas') }}
{% endmacro %}
