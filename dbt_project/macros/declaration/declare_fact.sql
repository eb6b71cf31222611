{# Check what a model says in waltally.fact() and return it in full, with every default: what dbt's
   manifest holds, `loader setup` registers, and loader and Spark read. An error is one sentence,
   while dbt parses. `derived` is checked and stays out: the rows that count do not depend on it. #}
{% macro declare_fact(tables, dimensions, measures, where={}, derived={}) %}
    {%- set declared = {
        'version': 1,
        'kind': 'fact',
        'tables': waltally.declare_tables(tables),
        'dimensions': waltally.declare_dimensions(dimensions),
        'where': waltally.declare_conditions(where),
        'key': [],
    } -%}
    {%- do declared.update(measures=waltally.declare_measures(measures, declared.tables)) -%}
    {%- do waltally.check_names(declared, derived) -%}
    {%- do waltally.name_columns(declared) -%}
    {{ return(declared) }}
{% endmacro %}
