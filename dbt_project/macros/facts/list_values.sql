{# What a row of a table is for the fact, as [{kind, column, ...}]: its dimensions but the
   slot, the columns that are summed, and whether the conditions on each column hold, of the fact and of
   its measures. `parts` are the tables that have the value, empty for all. Two rows with equal values are
   alike. #}
{% macro list_values(declared) %}
    {%- set values = [] -%}
    {%- set tables = declared.tables | map(attribute='name') | list -%}
    {%- for dimension in declared.dimensions if dimension.column is not none -%}
        {%- do values.append(dimension) -%}
    {%- endfor -%}
    {%- for column in declared.measures | map(attribute='columns') | sum(start=[]) | unique(case_sensitive=true) -%}
        {%- set of = [] -%}
        {%- for measure in declared.measures if column in measure.columns -%}
            {%- do of.extend(measure.of) -%}
        {%- endfor -%}
        {%- do values.append({'kind': 'sum', 'column': column, 'of': of}) -%}
    {%- endfor -%}
    {%- for column in declared.where | map(attribute='column') | unique(case_sensitive=true) -%}
        {%- do values.append({
            'kind': 'condition',
            'column': column,
            'conditions': declared.where | selectattr('column', 'equalto', column) | list,
            'of': tables,
        }) -%}
    {%- endfor -%}
    {%- for measure in declared.measures -%}
        {%- for column in measure.where | map(attribute='column') | unique(case_sensitive=true) -%}
            {%- set conditions = measure.where | selectattr('column', 'equalto', column) | list -%}
            {%- set same = values | selectattr('kind', 'equalto', 'measure_condition')
                | selectattr('conditions', 'equalto', conditions) | list -%}
            {%- set value = same[0] if same else
                {'kind': 'measure_condition', 'column': column, 'conditions': conditions, 'measures': [], 'of': []} -%}
            {%- do value.measures.append(measure.name) -%}
            {%- do value.of.extend(measure.of) -%}
            {%- if not same -%}{%- do values.append(value) -%}{%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for value in values if value.of -%}
        {%- set parts = tables | select('in', value.of) | list -%}
        {%- do value.update(parts=parts if parts | length < tables | length else []) -%}
    {%- endfor -%}
    {{ return(values) }}
{% endmacro %}
