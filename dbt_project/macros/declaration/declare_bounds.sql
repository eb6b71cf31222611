{# The bounds of buckets as texts, each with as many decimals as the one that has most. #}
{% macro declare_bounds(name, given) %}
    {%- set takes = '; it takes a list of numbers, each larger than the one before, as in [0, 10, 100]' -%}
    {%- set is_list = given is not string and given is not mapping and given is iterable -%}
    {%- if not is_list or not given -%}
        {%- do waltally.refuse_declaration('bounds of dimension ' ~ name ~ ' is ' ~ given ~ takes) -%}
    {%- endif -%}
    {%- set decimals = [] -%}
    {%- for bound in given -%}
        {%- if bound is boolean or not waltally.is_number(bound) -%}
            {%- do waltally.refuse_declaration('bounds of dimension ' ~ name ~ ' has ' ~ bound ~ takes) -%}
        {%- endif -%}
        {%- do decimals.append((bound | string).partition('.')[2].rstrip('0') | length) -%}
    {%- endfor -%}
    {%- set found, wholes = [], [] -%}
    {%- for bound in given -%}
        {%- set whole, _, fraction = (bound | string).partition('.') -%}
        {%- set digits = fraction.rstrip('0').ljust(decimals | max, '0') -%}
        {%- if wholes and (whole ~ digits) | int <= wholes[-1] -%}
            {%- do waltally.refuse_declaration('bounds of dimension ' ~ name ~ ' has ' ~ bound ~ takes) -%}
        {%- endif -%}
        {%- do wholes.append((whole ~ digits) | int) -%}
        {%- set sign = '-' if whole[0] == '-' and (whole ~ digits) | int != 0 else '' -%}
        {%- set plain = modules.re.sub('^-?0*(?=[0-9])', '', whole) -%}
        {%- do found.append(sign ~ plain ~ ('.' ~ digits if digits else '')) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
