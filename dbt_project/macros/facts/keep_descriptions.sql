{# Put the descriptions of the model and of its columns where psql shows them, as its persist_docs
   asks for. Nothing is written where they are there: dbt's own macro writes all of them each time. #}
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
        {%- set found = run_query(
            "select coalesce(a.attname::text, '') as name, d.description "
            ~ 'from pg_catalog.pg_description as d left join pg_catalog.pg_attribute as a '
            ~ 'on a.attrelid = d.objoid and a.attnum = d.objsubid and d.objsubid > 0 '
            ~ "where d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass "
            ~ 'and d.objoid = pg_catalog.to_regclass('
            ~ waltally.quote_literal(this.include(database=false) | string) ~ ') order by d.objsubid'
        ).rows -%}
        {%- do waltally.note_found(found) -%}
        {%- set present = {} -%}
        {%- for name, description in found -%}
            {%- do present.update({name or '': description}) -%}
        {%- endfor -%}
        {%- set different = [] -%}
        {%- for name, description in wanted.items() if present.get(name) != description -%}
            {%- do different.append(name) -%}
        {%- endfor -%}
        {%- if different -%}{%- do persist_docs(relation, model) -%}{%- endif -%}
    {%- endif -%}
{% endmacro %}
