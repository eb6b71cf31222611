{# The columns of the fact's key, in order; declare_dimension describes one. #}
{% macro declare_dimensions(dimensions) %}
    {%- if dimensions is not mapping or not dimensions -%}
        {%- do waltally.refuse_declaration(
            'dimensions is ' ~ dimensions ~ '; it takes {column: SQL type}, one or more'
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for name, given in dimensions.items() -%}
        {%- do found.append(waltally.declare_dimension(name, given)) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
