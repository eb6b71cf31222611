{# A step of the materialization: add the batch, the model's query, to a fact's table. #}
{% macro build_fact(declared, derived, batch, relation, reads_table, sql) %}
    {%- if load_cached_relation(this) is none -%}
        {% call statement('main') %}{{ get_create_table_as_sql(false, relation, sql) }}{% endcall %}
        {% call statement('constraints') %}{{ waltally.keep_constraints(declared) }}{% endcall %}
    {%- else -%}
        {% call statement('batch') %}
            create temporary table {{ batch }} on commit drop as ({{ sql }})
        {% endcall %}
        {% call statement('columns') %}{{ waltally.adapt_columns(declared, batch, reads_table) }}{% endcall %}
        {% call statement('main') %}{{ waltally.add_batch(declared, derived, batch) }}{% endcall %}
    {%- endif -%}
{% endmacro %}
