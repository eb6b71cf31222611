{# The node of a model by a ref to it, as dbt finds it: without a package it is the root project's, one of the same
   package, or any. #}
{% macro find_input(reference) %}
    {%- set named = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('name', 'equalto', reference.name) | list -%}
    {%- set found = [] -%}
    {%- for package in ([reference.package] if reference.package else [project_name, model.package_name]) -%}
        {%- do found.extend(named | selectattr('package_name', 'equalto', package)) -%}
    {%- endfor -%}
    {{ return((found or ([] if reference.package else named)) | first) }}
{% endmacro %}
