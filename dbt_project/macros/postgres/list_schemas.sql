{# Overrides dbt to pin the settings before its first statement, in every project that has this package. dbt
   also compares without regard to case: where analytics is there, it would not make Analytics. A schema that
   differs from the target's in case alone is left out of the list. #}
{% macro list_schemas(database) %}
    {% call statement('pins', auto_begin=false) %}{{ waltally.pin_session() }}{% endcall %}
    {% call statement('list_schemas', fetch_result=true, auto_begin=false) %}
        select schemas.nspname
        from pg_catalog.pg_namespace as schemas
        where
            lower(schemas.nspname) <> lower({{ waltally.quote_literal(target.schema) }})
            or schemas.nspname = {{ waltally.quote_literal(target.schema) }}
    {% endcall %}
    {{ return(load_result('list_schemas').table) }}
{% endmacro %}
