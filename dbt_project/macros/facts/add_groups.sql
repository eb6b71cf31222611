{# A step of a fact's routine: add groups that were counted elsewhere. In a rebuild these are the baseline's, in place of
   everything that the table holds, without the tables in $6: they are truncated after it. In a merge they are what
   Spark has computed, after the parts of the tables in $6 were taken out: as changes, with the dimensions as new values
   and what they add to the measures as old ones. #}
{% macro add_groups(declared, derived) %}
with tables (part, source_table) as (
    values
    {%- for table in declared.tables %}
    ({{ waltally.quote_literal(table.name) }}, {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}){{ ',' if not loop.last }}
    {%- endfor %}
),

truncates as (
    select tables.part from tables
    where $1 <> 'merge' or tables.source_table = any ($6)
),

groups as (
    select counted.dimensions, counted.measures
    from {{ waltally.get_staging_schema() }}.baseline_group as counted
    inner join tables on tables.part = counted.part
    where
        $1 <> 'merge'
        and counted.slot_name = $2
        and counted.fact_name = {{ waltally.quote_literal(model.name) }}
        and tables.source_table <> all (coalesce($6, '{}'))

    union all
    select computed.new_values, computed.old_values::numeric[]
    from unnest($3) as computed
    where $1 = 'merge'
),

contributions as (
    select
        {%- for dimension in declared.dimensions %}
        groups.dimensions[{{ loop.index }}]::{{ dimension.type }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        groups.measures[{{ loop.index }}]{{ '::bigint' if measure.kind == 'count' }} as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from groups

    union all
    {{ waltally.take_out(declared, "$1 <> 'merge'") }}
),
{{ waltally.add_contributions(declared, derived) }}

select told.moved, told.is_reset into result.moved, result.is_reset from told;
{% endmacro %}

{# A query: what the table holds, with its sign turned, as contributions: for the measures of the tables that the CTE
   `truncates` names, or all of it where the condition `is_all` holds. #}
{% macro take_out(declared, is_all='false') %}
    select
        {%- for dimension in declared.dimensions %}
        stored.{{ waltally.quote_name(dimension.name) }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        case
            when {{ is_all }}
                {%- if measure.of | length == 1 %}
                or exists (select from truncates where part in ({{ waltally.quote_literals(measure.of) }}))
                {%- endif %}
                then -stored.{{ waltally.quote_name(measure.name) }}
            else 0
        end as m{{ loop.index0 }},
        {%- endfor %}
        true as is_stored
    from {{ waltally.name_table() }} as stored
    where exists (select from truncates){{ waltally.write_slot_filter(declared, '$2', 'stored.') }}
{%- endmacro %}
