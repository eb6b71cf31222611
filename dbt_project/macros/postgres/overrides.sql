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

{# Overrides dbt to pin the settings of the transaction first, in every project that has this package. dbt
   compares an oid with a regclass: whoever may create an operator of these two types in a schema of the
   search path would have their code run by whoever calls dbt. #}
{% macro postgres__get_relations() %}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {{ return(dbt.postgres__get_relations()) }}
{% endmacro %}

{# Overrides dbt, in every project that has this package: its operators may be anybody's who creates in a schema
   of the search path. Here they are those of pg_catalog. An array or an enum has a type that a unit test can
   cast to. Nothing is pinned, because a model of the user's own may have this asked in the middle of its
   transaction. #}
{% macro get_columns_in_relation(relation) %}
    {% call statement('get_columns_in_relation', fetch_result=true) %}
        select
            column_name,
            case
                when data_type in ('ARRAY', 'USER-DEFINED') then pg_catalog.format_type(
                    pg_catalog.format('%I.%I', udt_schema, udt_name)::pg_catalog.regtype, null
                )
                else data_type
            end as data_type,
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

{# Overrides dbt to take a lock first: `if not exists` does not see the schema of another build that
   has not committed, so one of two first builds at once would fail. #}
{% macro postgres__create_schema(relation) -%}
    {%- for quote in ['"', "'"] if quote in relation.schema -%}
        {{ exceptions.raise_compiler_error(
            'dbt cannot write to the schema ' ~ relation.schema ~ ': choose a DBT_SCHEMA without '
            ~ quote ~ ' in its name.'
        ) }}
    {%- endfor -%}
    {%- call statement('create_schema') -%}
        {{ waltally.pin_transaction() }};
        select pg_advisory_xact_lock({{ waltally.lock_key('dbt schema', relation.schema) }});
        create schema if not exists {{ relation.without_identifier().include(database=false) }}
    {%- endcall -%}
{% endmacro %}

{# Overrides dbt so that a unit test pins its settings: it makes a temporary table, which fails
   where the role's transactions are read-only. #}
{% macro postgres__get_create_table_as_sql(temporary, relation, sql) -%}
    {{ waltally.pin_unit_test() }}
    {{ create_table_as(temporary, relation, sql) }}
{%- endmacro %}

{# Overrides dbt so that a unit test that expects no rows pins its settings: it asks for the columns
   first. #}
{% macro postgres__get_columns_in_query(select_sql) %}
    {{ waltally.pin_unit_test() }}
    {{ return(default__get_columns_in_query(select_sql)) }}
{% endmacro %}

{# Overrides dbt so that data tests pin their settings too: a role's setting could fail a test, and
   a failed test stops what is built after it. The pins are a statement of their own, because
   standard_conforming_strings decides how the next statement is read. #}
{% macro postgres__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {{ default__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}
