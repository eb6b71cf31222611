{# A table of the source, [schema, name], as a relation, or none where this database lacks it. #}
{% macro source_table(names) %}
    {{ return(adapter.get_relation(target.database, names[0], names[1]) if execute else none) }}
{% endmacro %}
