{# What the fact adds up, in order; declare_measure describes one. #}
{% macro declare_measures(measures, tables) %}
    {%- if measures is not mapping or not measures -%}
        {%- do waltally.refuse_declaration(
            'measures is ' ~ measures
            ~ "; it takes {name: {'count': table}} or {name: {'sum': column}}, one or more"
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for name, given in measures.items() -%}
        {%- do found.append(waltally.declare_measure(name, given, tables)) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
