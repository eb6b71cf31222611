{# Every id is the id of a row of the table that the variable names. It only warns,
   because the table belongs to the application, and a failure would stop the models after it. It
   passes, and says so in the log, where the table is not in this database or this role may not read
   it. #}
{% test belongs_to_source(model, column_name, table_var) %}
{{ config(severity='warn') }}
{%- set names = var(table_var).split('.', 1) -%}
{%- set table = api.Relation.create(schema=names[0], identifier=names[1]) -%}
{%- set readable -%}
select
    coalesce(bool_or(
        has_schema_privilege(schemas.oid, 'usage') and has_column_privilege(tables.oid, columns.attnum, 'select')
    ), false)
from pg_catalog.pg_class as tables
inner join pg_catalog.pg_namespace as schemas on schemas.oid = tables.relnamespace
inner join pg_catalog.pg_attribute as columns on columns.attrelid = tables.oid
where
    schemas.nspname = {{ waltally.quote_literal(names[0]) }}
    and tables.relname = {{ waltally.quote_literal(names[1]) }}
    and columns.attname = 'id'
{%- endset -%}
{%- if execute -%}
    {% call statement('pins', auto_begin=false) %}{{ waltally.pin_session() }}{% endcall %}
{%- endif -%}
{%- set is_readable = execute and run_query(readable).rows[0][0] -%}
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
select distinct models.{{ column_name }}
from {{ model }} as models
left join {{ table }} as named on models.{{ column_name }}::text = named.id::text
where named.id is null and models.{{ column_name }} is not null
{%- endif -%}
{% endtest %}
