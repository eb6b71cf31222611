{# Run a query that a test or a model asks while dbt compiles it: no statement has pinned the settings of the
   transaction yet. #}
{% macro run_pinned(sql) %}
    {% call statement('pins', auto_begin=false) %}{{ waltally.pin_session() }}{% endcall %}
    {{ return(run_query(sql)) }}
{% endmacro %}
