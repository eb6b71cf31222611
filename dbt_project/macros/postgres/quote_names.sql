{# Names as SQL wants them, one after the other, each of a relation where one is given. #}
{% macro quote_names(names, relation=none) -%}
    {%- for name in names -%}
        {{ relation ~ '.' if relation }}{{ waltally.quote_name(name) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
