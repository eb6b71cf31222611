{# The columns of that constraint. #}
{% macro list_key(declared) %}
    {{ return(
        declared.key if declared.kind == 'current_rows'
        else declared.dimensions | map(attribute='name') | list
    ) }}
{% endmacro %}
