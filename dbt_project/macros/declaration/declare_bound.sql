{# The text of a bound: a number such as 9.50, a day such as 2026-01-31, or a time such as 2026-01-31 08:30:00.
   Midnight is its day alone, so that texts are in the order of the times. #}
{% macro declare_bound(what, value) %}
    {%- set text = value | string -%}
    {%- set year, month, day = (text[:4] | int, text[5:7] | int, text[8:10] | int) -%}
    {%- set is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) -%}
    {%- set days = 30 if month in [4, 6, 9, 11] else 31 if month != 2 else 29 if is_leap else 28 -%}
    {%- set is_time = day <= days and modules.re.fullmatch(
        '(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
        ~ '( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?)?', text
    ) -%}
    {%- do waltally.check_declaration([[
        value is boolean or not (waltally.is_number(text) or is_time),
        what ~ ' is ' ~ value ~ "; it takes a number such as 9.50, a day such as '2026-01-31' or a time in UTC "
        ~ "such as '2026-01-31 08:30:00'",
    ]]) -%}
    {{ return(modules.re.sub(' 00:00:00([.]0+)?$', '', text)) }}
{% endmacro %}
