{# Whether the fact's table is there with the declared dimensions and measures. Where the declaration
   has changed them, the table's rows cannot be added to. #}
{% macro has_declared_columns(declared) %}
    {%- if not execute or load_cached_relation(this) is none -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set names = {'timestamp': 'timestamp without time zone', 'timestamptz': 'timestamp with time zone'} -%}
    {%- set stored = waltally.list_columns_of(this) -%}
    {%- set different = [] -%}
    {%- for column in declared.dimensions + declared.measures
        if stored.get(column.name) != names.get(column.type, column.type | replace(' ', '')) -%}
        {%- do different.append(column.name) -%}
    {%- endfor -%}
    {{ return(not different) }}
{% endmacro %}
