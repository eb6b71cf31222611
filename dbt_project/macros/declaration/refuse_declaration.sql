{# Stop dbt with one sentence about what a model declares. #}
{% macro refuse_declaration(sentence) %}
    {{ exceptions.raise_compiler_error(model.name ~ ': ' ~ sentence ~ '.') }}
{% endmacro %}
