{# SQL: what a source table gives for each group of a fact, counted in the table itself. #}
{% macro recount_table(declared, table) %}
{%- set source_table = waltally.find_table([table.schema, table.table]) -%}
{%- if source_table is none -%}
    {{ exceptions.raise_compiler_error(
        'A recount needs ' ~ table.schema ~ '.' ~ table.table ~ ' in this database.'
    ) }}
{%- endif -%}
{%- set types = {} -%}
{%- for column in adapter.get_columns_in_relation(source_table) -%}
    {%- do types.update({column.name: column.dtype}) -%}
{%- endfor -%}
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
            and {{ waltally.quote_name(table.columns.get(dimension.column, dimension.column)) }} is not null
            {%- endfor %}
            {%- for condition in declared.where %}
            {%- set column = waltally.quote_name(table.columns.get(condition.column, condition.column)) %}
            {%- if condition.test == 'is_null' %}
            and {{ column }} is {{ 'null' if condition.is_null else 'not null' }}
            {%- else %}
            and {{ column }}::text {{ 'in' if condition.test == 'in' else 'not in' }} ({{ waltally.quote_literals(condition['values']) }})
            {%- endif %}
            {%- endfor %}
{%- endmacro %}
