{# SQL: what a source table gives for each group of a fact, counted in the table itself. #}
{% macro recount_table(declared, table) %}
{%- set source_table = waltally.name_source(table) -%}
{%- set types = waltally.list_column_types([table.schema, table.table]) -%}
select
            {%- for dimension in declared.dimensions %}
            {%- set column = table.columns.get(dimension.column, dimension.column) %}
            {{ waltally.recount_dimension(dimension, column, types.get(column)) }} as d{{ loop.index0 }},
            {%- endfor %}
            {%- for measure in declared.measures %}
            0::numeric as c{{ loop.index0 }},
            {%- if table.name not in measure.of %}
            0::numeric
            {%- elif measure.kind == 'count' %}
            1::numeric
            {%- else %}
            coalesce({{ waltally.quote_name(table.columns.get(measure.column, measure.column)) }}::text::numeric, 0)
            {%- endif %} as r{{ loop.index0 }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ source_table }}
        where
            true
            {%- for dimension in declared.dimensions if dimension.column is not none and dimension.nulls == 'leave_out' %}
            and num_nulls({{ waltally.quote_name(table.columns.get(dimension.column, dimension.column)) }}) = 0
            {%- endfor %}
            {%- for condition in declared.where %}
            {%- set column = waltally.quote_name(table.columns.get(condition.column, condition.column)) %}
            {%- if condition.test == 'is_null' %}
            and num_nulls({{ column }}) = {{ 1 if condition.is_null else 0 }}
            {%- else %}
            and {{ waltally.recount_text(column) }} {{ 'in' if condition.test == 'in' else 'not in' }} ({{ waltally.quote_literals(condition['values']) }})
            {%- endif %}
            {%- endfor %}
{%- endmacro %}
