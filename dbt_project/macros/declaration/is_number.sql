{# Whether a text is a number as a declaration takes it. #}
{% macro is_number(text) %}
    {{ return(modules.re.fullmatch('-?[0-9]{1,100}([.][0-9]{1,100})?', text | string) is not none) }}
{% endmacro %}
