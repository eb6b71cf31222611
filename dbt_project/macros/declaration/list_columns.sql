{# The columns that are read from the images, as the declaration calls them, each once. #}
{% macro list_columns(declared) %}
    {{ return((
        declared.dimensions | map(attribute='column') | select | list
        + declared.measures | map(attribute='column') | select | list
        + declared.where | map(attribute='column') | list
    ) | unique(case_sensitive=true) | list) }}
{% endmacro %}
