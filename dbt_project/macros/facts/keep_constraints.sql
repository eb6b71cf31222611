{# SQL: what every table has that a batch is added to. A batch finds its groups by the unique
   dimensions, where null is a group too, and current rows by their primary key. Rows are updated in
   every build, and an update that finds room on the page does not have to write the indexes. #}
{% macro keep_constraints(declared) %}
{%- set is_fact = declared.kind != 'current_rows' -%}
{%- set columns = declared.dimensions + (declared.measures if declared.kind == 'fact' else []) -%}
alter table {{ this }}
        {%- for column in columns if column.nulls != 'count' %}
    alter column {{ waltally.quote_name(column.name) }} set not null,
    {%- endfor %}
    drop constraint if exists {{ waltally.quote_name(waltally.name_key(declared)) }},
    set (fillfactor = 80);
{%- if is_fact %}
if not exists (
    select from pg_constraint
    where
        conrelid = {{ waltally.quote_literal(this.include(database=false) | string) }}::regclass
        and contype = 'p'
) then
    alter table {{ this }}
    add constraint {{ waltally.quote_name(this.identifier ~ '_pkey') }} primary key (id);
end if;
{%- endif %}
alter table {{ this }}
add constraint {{ waltally.quote_name(waltally.name_key(declared)) }}
{{ 'unique nulls not distinct' if is_fact else 'primary key' }} ({{ waltally.quote_names(waltally.list_key(declared)) }});
{% endmacro %}
