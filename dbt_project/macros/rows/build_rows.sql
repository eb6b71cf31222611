{# A step of the materialization: apply the batch, the model's query, to a table of current rows. #}
{% macro build_rows(declared, batch, relation, reads_table, sql) %}
    {%- set empty = waltally.select_no_rows(declared) -%}
    {% call statement('batch') %}{{ waltally.fill_batch(batch, sql) }}{% endcall %}
    {%- if load_cached_relation(this) is none -%}
        {% call statement('table') %}{{ get_create_table_as_sql(false, relation, empty) }}{% endcall %}
        {% call statement('constraints') %}{{ waltally.keep_constraints(declared) }}{% endcall %}
    {%- elif not reads_table -%}
        {% call statement('columns') %}{{ waltally.adapt_columns(declared, empty, false) }}{% endcall %}
    {%- endif -%}
    {% call statement('main') %}{{ waltally.apply_rows(declared, batch) }}{% endcall %}
{% endmacro %}
