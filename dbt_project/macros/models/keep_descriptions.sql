{# Put the descriptions of the model and of its columns where psql shows them, as its persist_docs
   asks for. Nothing is written where they are there. dbt's own macro writes all of them each time,
   and would execute what stands in a column's name. A description of a column that the table lacks is left out. #}
{% macro keep_descriptions(relation) %}
    {%- set wanted = {} -%}
    {%- if config.persist_relation_docs() and model.description -%}
        {%- do wanted.update({'': model.description}) -%}
    {%- endif -%}
    {%- if config.persist_column_docs() -%}
        {%- for column in model.columns.values() if column.description -%}
            {%- do wanted.update({column.name: column.description}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if wanted -%}
        {%- set table = 'pg_catalog.to_regclass('
            ~ waltally.quote_literal(this.include(database=false) | string) ~ ')' -%}
        {%- set found = run_query(
            "select coalesce(a.attname::text, '') as name, d.description from ("
            ~ 'select attnum, attname from pg_catalog.pg_attribute where attrelid = ' ~ table
            ~ ' and attnum > 0 and not attisdropped union all select 0, null'
            ~ ') as a left join pg_catalog.pg_description as d '
            ~ "on d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass "
            ~ 'and d.objoid = ' ~ table ~ ' and d.objsubid = a.attnum order by a.attnum'
        ).rows -%}
        {%- for name, description in found if name in wanted and wanted[name] != description -%}
            {%- set object = 'column ' ~ relation ~ '.' ~ waltally.quote_name(name) if name
                else relation.type ~ ' ' ~ relation -%}
            {%- do run_query(
                'comment on ' ~ object ~ ' is ' ~ waltally.quote_literal(wanted[name])
            ) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
