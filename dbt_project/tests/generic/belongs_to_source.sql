{# Every id with a count is the id of a row of the table that the variable names. Passes, and says
   so in the log, where that table is not in this database. #}
{% test belongs_to_source(model, column_name, table_var) %}
{%- set table = source_table(parse_tables(var(table_var))[0]) -%}
{%- if execute and table is none -%}
    {%- do log('Skipped: no table ' ~ var(table_var) ~ ' in this database.', info=true) -%}
{%- endif -%}
{%- if table is none -%}
select 1 as skipped where false
{%- else -%}
select distinct facts.{{ column_name }}
from {{ model }} as facts
left join {{ table }} as named on facts.{{ column_name }} = named.id
where named.id is null and facts.count > 0
{%- endif -%}
{% endtest %}
