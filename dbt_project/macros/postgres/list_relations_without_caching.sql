{# Overrides dbt to pin the settings of the transaction first, in every project that has this package. dbt also
   compares with ilike: where the schemas Analytics and analytics are both there, it takes the tables of one for
   those of the other. #}
{% macro list_relations_without_caching(schema_relation) %}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
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
            schemas.nspname = {{ waltally.quote_literal(schema_relation.schema) }}
            and relations.relkind in ('r', 'p', 'v', 'm')
    {% endcall %}
    {{ return(load_result('list_relations_without_caching').table) }}
{% endmacro %}
