{# Refuse names that cannot stand beside each other in one table, and derived columns that are no
   SQL. #}
{% macro check_names(declared, derived) %}
    {%- do waltally.check_declaration([
        [derived is not mapping, 'derived is ' ~ derived ~ '; it takes {column: SQL expression of the measures}'],
    ]) -%}
    {%- set keys = declared.dimensions | map(attribute='name') | list -%}
    {%- set others = declared.measures | map(attribute='name') | list + derived.keys() | list -%}
    {%- do waltally.check_size('dimensions', keys, others + ['id'], 'uix_%_dimensions',
        declared.dimensions | map(attribute='type') | list) -%}
    {%- set taken = ['id'] -%}
    {%- for name in keys + others -%}
        {%- do waltally.check_name('a column', name) -%}
        {%- do waltally.check_declaration([[
            name in taken,
            'two columns are called ' ~ name ~ '; id, dimensions, measures and derived columns '
            ~ "take a name each, and a table's column may have another: 'columns': {name: column}",
        ]]) -%}
        {%- do taken.append(name) -%}
    {%- endfor -%}
    {%- for name, expression in derived.items() if expression is not string -%}
        {%- do waltally.refuse_declaration(
            'derived ' ~ name ~ ' is ' ~ expression ~ '; it takes an SQL expression of the measures'
        ) -%}
    {%- endfor -%}
{% endmacro %}
