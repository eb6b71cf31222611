{# Check what a model says in waltally.fact() and return it in full, with every default: what dbt's
   manifest holds, `loader setup` registers, and loader and Spark read. An error is one sentence,
   while dbt parses. `derived` is checked and stays out: the rows that count do not depend on it. #}
{% macro declare_fact(tables, dimensions, measures, where={}, derived={}) %}
    {%- do waltally.check_declaration([
        [
            dimensions is not mapping or not dimensions,
            'dimensions is ' ~ dimensions ~ '; use {column: SQL type}, one or more',
        ],
        [
            measures is not mapping or not measures,
            'measures is ' ~ measures ~ "; use {name: {'count': table}} or {name: {'sum': column}}, one or more",
        ],
    ]) -%}
    {%- set declared = {
        'version': 1,
        'kind': 'fact',
        'tables': waltally.declare_tables(tables),
        'dimensions': [],
        'measures': [],
        'where': waltally.declare_conditions(where),
        'key': [],
    } -%}
    {%- for name, given in dimensions.items() -%}
        {%- do declared.dimensions.append(waltally.declare_dimension(name, given)) -%}
    {%- endfor -%}
    {%- for name, given in measures.items() -%}
        {%- do declared.measures.append(waltally.declare_measure(name, given, declared.tables)) -%}
    {%- endfor -%}
    {%- do waltally.check_names(declared, derived) -%}
    {%- do waltally.name_columns(declared) -%}
    {{ return(declared) }}
{% endmacro %}
