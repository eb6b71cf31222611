{# dbt's own macro compares with ilike: of the schemas Analytics and analytics it takes the one's
   tables for the other's. #}
{% macro postgres__list_relations_without_caching(schema_relation) %}
    {% call statement('list_relations_without_caching', fetch_result=true) -%}
        select
            current_database() as database,
            relations.relname as name,
            schemas.nspname as schema,
            case relations.relkind
                when 'v' then 'view'
                when 'm' then 'materialized_view'
                else 'table'
            end as type
        from pg_catalog.pg_class as relations
        inner join pg_catalog.pg_namespace as schemas on schemas.oid = relations.relnamespace
        where
            schemas.nspname = {{ literal(schema_relation.schema) }}
            and relations.relkind in ('r', 'p', 'v', 'm')
    {% endcall %}
    {{ return(load_result('list_relations_without_caching').table) }}
{% endmacro %}
