{# Overrides dbt to pin the settings of the transaction first, in every project that has this package. #}
{% macro list_relations_without_caching(schema_relation) %}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {{ return(waltally.postgres__list_relations_without_caching(schema_relation)) }}
{% endmacro %}
