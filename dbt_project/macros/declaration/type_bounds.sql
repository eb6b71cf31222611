{# The type of a bucket's lower bound: bigint where all are whole, else numeric with their digits. #}
{% macro type_bounds(bounds) %}
    {%- set decimals = bounds[0].partition('.')[2] | length -%}
    {%- set digits = [] -%}
    {%- for bound in bounds -%}{%- do digits.append(bound | replace('-', '') | replace('.', '') | length) -%}{%- endfor -%}
    {{ return(
        'bigint' if not decimals and digits | max < 19
        else 'numeric(' ~ digits | max ~ ', ' ~ decimals ~ ')'
    ) }}
{% endmacro %}
