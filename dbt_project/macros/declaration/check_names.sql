{# Refuse names that cannot stand beside each other in one table, and derived columns that are no
   SQL. #}
{% macro check_names(declared, derived) %}
    {#- A unit test has a name of its own. -#}
    {%- if model.resource_type == 'model' and model.name.encode('utf-8') | length > 48 -%}
        {%- do waltally.refuse_declaration(
            "the model's name has more than 48 bytes, and its index uix_" ~ model.name
            ~ '_dimensions would have more than 63; it takes a shorter name'
        ) -%}
    {%- elif derived is not mapping -%}
        {%- do waltally.refuse_declaration(
            'derived is ' ~ derived ~ '; it takes {column: SQL expression of the measures}'
        ) -%}
    {%- endif -%}
    {%- set taken = ['id'] -%}
    {%- for name in declared.dimensions | map(attribute='name') | list
        + declared.measures | map(attribute='name') | list + derived.keys() | list -%}
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
