{# Overrides dbt, in every project that has this package: its operators may be anybody's who creates in a schema
   of the search path. Here they are those of pg_catalog. Nothing is pinned, because a model of the user's own
   may have this asked in the middle of its transaction. #}
{% macro get_columns_in_relation(relation) %}
    {% call statement('get_columns_in_relation', fetch_result=true) %}
        select
            column_name,
            data_type,
            character_maximum_length,
            numeric_precision,
            numeric_scale
        from information_schema.columns
        where
            table_name operator(pg_catalog.=) {{ waltally.quote_literal(relation.identifier) }}
            {%- if relation.schema %}
            and table_schema operator(pg_catalog.=) {{ waltally.quote_literal(relation.schema) }}
            {%- endif %}
        order by ordinal_position
    {% endcall %}
    {{ return(sql_convert_columns_in_relation(load_result('get_columns_in_relation').table)) }}
{% endmacro %}
