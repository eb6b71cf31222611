{# A step of a fact's routine: add groups that were computed elsewhere, after the parts of the tables in $6 were
   taken out. A group is a change: its dimensions are the new values, what it adds to the measures the old ones. #}
{% macro merge_groups(declared, derived) %}
with truncates as (
    select tables.part
    from (
        values
        {%- for table in declared.tables %}
        ({{ waltally.quote_literal(table.name) }}, {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}){{ ',' if not loop.last }}
        {%- endfor %}
    ) as tables (part, source_table)
    where tables.source_table = any ($6)
),

contributions as (
    select
        {%- for dimension in declared.dimensions %}
        computed.new_values[{{ loop.index }}]::{{ dimension.type }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        computed.old_values[{{ loop.index }}]::{{ 'bigint' if measure.kind == 'count' else 'numeric' }} as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from unnest($3) as computed

    union all
    {{ waltally.select_stored(declared, is_truncate=true) }}
),
{{ waltally.add_contributions(declared, derived, is_told=true) }}

select told.moved, told.is_reset into result.moved, result.is_reset from told;
{% endmacro %}
