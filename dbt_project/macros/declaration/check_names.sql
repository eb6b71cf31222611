{# Refuse names that cannot stand beside each other in one table, and derived columns that are no
   SQL. #}
{% macro check_names(declared, derived) %}
    {%- if derived is not mapping -%}
        {%- do waltally.refuse_declaration(
            'derived is ' ~ derived ~ '; it takes {column: SQL expression of the measures}'
        ) -%}
    {%- endif -%}
    {%- set keys = declared.dimensions | map(attribute='name') | list -%}
    {%- set others = declared.measures | map(attribute='name') | list + derived.keys() | list -%}
    {%- do waltally.check_size('dimensions', keys, others + ['id'], 'uix_%_dimensions',
        declared.dimensions | map(attribute='type') | list) -%}
    {%- set taken = ['id'] -%}
    {%- for name in keys + others -%}
        {%- do waltally.check_name('a column', name) -%}
        {%- if name in taken -%}
            {%- do waltally.refuse_declaration(
                'two columns are called ' ~ name ~ '; id, dimensions, measures and derived columns '
                ~ "take a name each, and a table's column may have another: 'columns': {name: column}"
            ) -%}
        {%- endif -%}
        {%- do taken.append(name) -%}
    {%- endfor -%}
    {%- for name, expression in derived.items() if expression is not string -%}
        {%- do waltally.refuse_declaration(
            'derived ' ~ name ~ ' is ' ~ expression ~ '; it takes an SQL expression of the measures'
        ) -%}
    {%- endfor -%}
{% endmacro %}
