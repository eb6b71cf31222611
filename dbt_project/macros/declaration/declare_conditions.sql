{# Which rows count, for the fact or for a measure: [{column, test, values, is_null}]. A list's values are
   compared as texts, and may have null; a bound is a number, or a date or time in UTC. #}
{% macro declare_conditions(where, of='') %}
    {%- do waltally.check_declaration([[
        where is not mapping,
        'where' ~ of ~ ' is ' ~ where ~ "; use {column: condition}, as in {'state': {'in': ['paid']}}",
    ]]) -%}
    {%- set conditions = [] -%}
    {%- for column, given in where.items() -%}
        {%- set named = 'where' ~ of ~ ' ' ~ column -%}
        {%- do waltally.check_declaration([[
            given is not mapping or not given,
            named ~ ' is ' ~ given ~ "; use {'in': [values]}, {'not_in': [values]}, {'is_null': true}, "
            ~ "{'at_least': value} or {'below': value}",
        ]]) -%}
        {%- do waltally.check_keys(named, given, ['in', 'not_in', 'is_null', 'at_least', 'below']) -%}
        {%- for test, value in given.items() -%}
            {%- set is_bound = test in ['at_least', 'below'] -%}
            {%- set is_list = test in ['in', 'not_in'] -%}
            {%- do waltally.check_declaration([
                [
                    test == 'is_null' and value is not boolean,
                    named ~ ' is_null is ' ~ value ~ '; use true or false',
                ],
                [
                    is_list and (value is string or value is mapping or value is not iterable or not value),
                    named ~ ' ' ~ test ~ ' is ' ~ value ~ '; use a list of values, one or more',
                ],
            ]) -%}
            {%- set texts = [waltally.declare_bound(named ~ ' ' ~ test, value)] if is_bound else [] -%}
            {%- for one in (value if is_list else []) -%}
                {%- do texts.append(none if one is none else one | string | lower if one is boolean else one | string) -%}
            {%- endfor -%}
            {%- do conditions.append({
                'column': column,
                'test': test,
                'values': texts,
                'is_null': value if test == 'is_null' else none,
            }) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(conditions) }}
{% endmacro %}

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
        what ~ ' is ' ~ value ~ "; use a number such as 9.50, a day such as '2026-01-31' or a time in UTC "
        ~ "such as '2026-01-31 08:30:00'",
    ]]) -%}
    {{ return(modules.re.sub(' 00:00:00([.]0+)?$', '', text)) }}
{% endmacro %}
