{# A step of a fact's routine: make the table hold the baseline, without the tables that are truncated after
   it. What stays the same is not written. #}
{% macro start_from_baseline(declared, derived) %}
with contributions as (
    select
        {%- for dimension in declared.dimensions %}
        groups.dimensions[{{ loop.index }}]::{{ dimension.type }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        groups.measures[{{ loop.index }}]{{ '::bigint' if measure.kind == 'count' }} as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from {{ waltally.get_staging_schema() }}.baseline_group as groups
    where
        groups.slot_name = $2
        and groups.fact_name = {{ waltally.quote_literal(model.name) }}
        and case groups.part
            {%- for table in declared.tables %}
            when {{ waltally.quote_literal(table.name) }} then {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}
            {%- endfor %}
        end <> all (coalesce($6, '{}'))

    union all
    {{ waltally.select_stored(declared, is_truncate=false) }}
),
{{ waltally.add_contributions(declared, derived) }}

select null into result.rejected_lsn;
{% endmacro %}
