{# Overrides dbt to pin the settings of the transaction first, in every project that has this package. dbt
   compares an oid with a regclass: whoever may create an operator of these two types in a schema of the
   search path would have their code run by whoever calls dbt. #}
{% macro postgres__get_relations() %}
    {% call statement('pins') %}{{ waltally.pin_session() }}{% endcall %}
    {{ return(dbt.postgres__get_relations()) }}
{% endmacro %}
