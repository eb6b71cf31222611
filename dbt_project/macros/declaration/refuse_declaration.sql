{# Stop dbt with one sentence about what a model declares. #}
{% macro refuse_declaration(sentence) %}
    {%- do exceptions.raise_dependency_error(waltally.escape_text(model.name ~ ': ' ~ sentence ~ '.')) -%}
{% endmacro %}
