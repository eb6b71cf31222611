{# SQL text: `condition then reason, ...` of the values that a dimension's type does not take; empty
   where it takes any. Of current rows only some columns are the key. #}
{% macro find_bad_value(value, image, is_key=true) -%}
    {%- set text = waltally.read_value_text(image) -%}
    {%- set named = 'the value of ' ~ value.column -%}
    {%- if value.kind in ['date_of', 'month_of'] -%}
        {{ image }} = '\no day'
                then {{ waltally.quote_literal(named ~ ' is not a date of the years 1 to 9999') }}
    {%- elif value.type == 'uuid' -%}
        {{ image }} !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then {{ waltally.quote_literal(named ~ ' is not a uuid') }}
    {%- elif value.type == 'text' -%}
        {#- An entry of the index holds the whole key in 2,704 bytes: see find_long_key. -#}
        {{ 'octet_length(' ~ text ~ ') > 1000' if is_key else 'false' }}
                then {{ waltally.quote_literal(named ~ ' is longer than 1000 bytes') }}
    {%- else -%}
        not {{ waltally.get_staging_schema() }}.takes({{ waltally.quote_literal(value.type) }}, {{ text }})
                then {{ waltally.quote_literal(
                    named ~ ' is not a ' ~ value.type ~ ' of the years 1 to 9999'
                    if value.type in ['date', 'timestamp', 'timestamptz']
                    else named ~ ' is not of type ' ~ value.type
                ) }}
    {%- endif -%}
{%- endmacro %}
