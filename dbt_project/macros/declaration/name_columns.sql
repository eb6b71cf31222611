{# Let each table's mapping name the column that is read. A day may be mapped by its own name or by
   the name of the column that it is the day of. Refuse a mapping of a name that nothing reads. #}
{% macro name_columns(declared) %}
    {%- set read = (
        declared.dimensions | map(attribute='column') | select | list
        + declared.measures | map(attribute='columns') | sum(start=[])
        + declared.where | map(attribute='column') | list
        + declared.measures | map(attribute='where') | sum(start=[]) | map(attribute='column') | list
    ) | unique(case_sensitive=true) | list -%}
    {%- for table in declared.tables -%}
        {%- set columns = {} -%}
        {%- set named = 'columns of table ' ~ table.name ~ ' maps ' -%}
        {%- for name, column in table.columns.items() -%}
            {%- set days = declared.dimensions | selectattr('name', 'equalto', name)
                | map(attribute='column') | select | list -%}
            {%- set target = name if name in read else days | first if days else none -%}
            {%- do waltally.check_declaration([
                [
                    target is none,
                    named ~ name ~ ', which no dimension, sum or condition reads; it takes ' ~ read | join(', '),
                ],
                [
                    columns.get(target, column) != column,
                    named ~ target ~ ' to ' ~ columns.get(target) ~ ' and to ' ~ column ~ '; it takes one of them',
                ],
            ]) -%}
            {%- do columns.update({target: column}) -%}
        {%- endfor -%}
        {%- do table.update(columns=columns) -%}
    {%- endfor -%}
{% endmacro %}
