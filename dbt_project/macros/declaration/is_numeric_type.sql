{# Whether a type is numeric(precision, scale), with no more decimals than digits. #}
{% macro is_numeric_type(type) %}
    {%- set found = modules.re.fullmatch('numeric[(]([0-9]+), ?([0-9]+)[)]', type | string) -%}
    {{ return(
        found is not none
        and 0 < found[1] | int <= 1000
        and found[2] | int <= found[1] | int
    ) }}
{% endmacro %}
