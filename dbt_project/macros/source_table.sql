{# A table of the source as a relation, or none where this database does not have it. #}
{% macro source_table(name) %}
    {%- set words = name.split('.') -%}
    {{ return(adapter.get_relation(target.database, words[0], words[1]) if execute else none) }}
{% endmacro %}
