{# How long the intervals of `every` are, as PostgreSQL and the seed take it: 900 seconds. #}
{% macro declare_interval(name, every) %}
    {%- set found = modules.re.fullmatch('([1-9][0-9]{0,4}) (second|minute|hour)s?', every | string) -%}
    {%- set seconds = found[1] | int * {'second': 1, 'minute': 60, 'hour': 3600}[found[2]] if found else 0 -%}
    {%- if not seconds or 86400 % seconds -%}
        {%- do waltally.refuse_declaration(
            'every of dimension ' ~ name ~ ' is ' ~ every
            ~ "; it takes hours, minutes or seconds that divide a day, as in '15 minutes'"
        ) -%}
    {%- endif -%}
    {{ return(seconds ~ ' seconds') }}
{% endmacro %}
