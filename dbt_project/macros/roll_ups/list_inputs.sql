{# The keys of all models that a roll-up is made of, at any depth. #}
{% macro list_inputs(node) %}
    {%- set found = [] -%}
    {%- for reference in node.refs[:1 + node.config.meta.waltally_roll_up.lookups | length] -%}
        {%- set input = waltally.find_input(reference) -%}
        {%- if 'waltally_roll_up' in input.config.meta -%}
            {%- do found.extend(waltally.list_inputs(input)) -%}
        {%- endif -%}
        {%- do found.append(input.schema ~ '.' ~ input.alias) -%}
    {%- endfor -%}
    {{ return(found | unique | list) }}
{% endmacro %}
