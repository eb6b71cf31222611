{# dbt compares schemas without regard to case: where analytics is there, it would not make
   Analytics. So what differs from ours in case alone is not told. #}
{% macro postgres__list_schemas(database) %}
    {% call statement('list_schemas', fetch_result=true, auto_begin=false) %}
        select schemas.nspname
        from pg_catalog.pg_namespace as schemas
        where
            lower(schemas.nspname) <> lower({{ literal(target.schema) }})
            or schemas.nspname = {{ literal(target.schema) }}
    {% endcall %}
    {{ return(load_result('list_schemas').table) }}
{% endmacro %}
