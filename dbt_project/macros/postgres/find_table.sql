{# A table, [schema, name], as a relation; none where this database lacks it. #}
{% macro find_table(names) %}
    {{ return(adapter.get_relation(target.database, names[0], names[1]) if execute else none) }}
{% endmacro %}
