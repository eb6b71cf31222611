{# A step of the materialization: add the batch, the model's query, to a fact's table. #}
{% macro build_fact(declared, derived, relation, reads_table, sql) %}
    {%- if load_cached_relation(this) is none -%}
        {% call statement('main') %}{{ get_create_table_as_sql(false, relation, sql) }}{% endcall %}
        {% call statement('constraints') %}{{ waltally.keep_constraints(declared) }}{% endcall %}
    {%- else -%}
        {% call statement('columns') %}{{ waltally.adapt_columns(declared, sql, reads_table) }}{% endcall %}
        {% call statement('main') %}{{ waltally.add_batch(declared, derived, sql) }}{% endcall %}
    {%- endif -%}
{% endmacro %}
