{# What a row of a table is for the fact, as [{kind, column, ...}]: its dimensions but the
   slot, the columns that are summed, and whether the conditions on each column hold. `parts` are the
   tables that a column is summed in, empty for all. Two rows with equal values are alike. #}
{% macro list_values(declared) %}
    {%- set values = [] -%}
    {%- for dimension in declared.dimensions if dimension.column is not none -%}
        {%- do values.append(dimension) -%}
    {%- endfor -%}
    {%- for column in declared.measures | map(attribute='column') | select
        | unique(case_sensitive=true) -%}
        {%- set of = declared.measures | selectattr('column', 'equalto', column)
            | map(attribute='of') | sum(start=[]) -%}
        {%- set parts = declared.tables | map(attribute='name') | select('in', of) | list -%}
        {%- do values.append({
            'kind': 'sum',
            'column': column,
            'parts': parts if parts | length < declared.tables | length else [],
        }) -%}
    {%- endfor -%}
    {%- for column in declared.where | map(attribute='column') | unique(case_sensitive=true) -%}
        {%- do values.append({
            'kind': 'condition',
            'column': column,
            'conditions': declared.where | selectattr('column', 'equalto', column) | list,
        }) -%}
    {%- endfor -%}
    {{ return(values) }}
{% endmacro %}
