{# The declarations of all facts of all projects that dbt knows. #}
{% macro list_declarations() %}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values() if node.config.get('meta', {}).get('waltally') -%}
        {%- do found.append(node.config.meta.waltally) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
