{# Names as SQL wants them, as a list. #}
{% macro quote_each(names) %}
    {%- set found = [] -%}
    {%- for name in names -%}{%- do found.append(waltally.quote_name(name) | string) -%}{%- endfor -%}
    {{ return(found) }}
{% endmacro %}
