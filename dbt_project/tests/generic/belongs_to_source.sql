{# Every id with a count is the id of a row of the table that the variable names. It only warns,
   because the table belongs to the application, and a failure would stop the models after it. It
   passes, and says so in the log, where the table is not in this database or this role may not read
   it. #}
{% test belongs_to_source(model, column_name, table_var) %}
{{ config(severity='warn') }}
{%- set names = waltally.split_table(var(table_var)) -%}
{%- set table = api.Relation.create(schema=names[0], identifier=names[1]) -%}
{%- set is_readable = execute and waltally.can_read_column(names, 'id') -%}
{%- if not is_readable -%}
    {%- if execute -%}
        {%- do log(
            'Skipped: this role may not read the column id of ' ~ var(table_var)
            ~ ' in this database, or it is not there.',
            info=true
        ) -%}
    {%- endif -%}
select 1 as skipped where false
{%- else -%}
select distinct facts.{{ column_name }}
from {{ model }} as facts
left join {{ table }} as named on facts.{{ column_name }}::text = named.id::text
where named.id is null and facts.count > 0
{%- endif -%}
{% endtest %}
