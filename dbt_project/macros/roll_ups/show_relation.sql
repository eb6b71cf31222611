{# The relation of a model's node as SQL wants it. #}
{% macro show_relation(node) -%}
    {{ waltally.quote_name(node.schema) }}.{{ waltally.quote_name(node.alias) }}
{%- endmacro %}
