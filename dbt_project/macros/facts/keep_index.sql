{# SQL: make an index on these columns of the fact where it has none. dbt's own `indexes` makes an
   index only together with the table, so an existing fact would never get a new one, and names it by a
   hash. #}
{% macro keep_index(columns) -%}
select {{ waltally.get_staging_schema() }}.keep_index(
    {{ waltally.quote_literal(this.include(database=false)) }}::regclass, array[{{ waltally.quote_literals(columns) }}]
)
{%- endmacro %}
