{# Overrides dbt to pin the settings before its first statement, in every project that has this package. #}
{% macro list_schemas(database) %}
    {% call statement('pins', auto_begin=false) %}{{ waltally.pin_session() }}{% endcall %}
    {{ return(waltally.postgres__list_schemas(database)) }}
{% endmacro %}
