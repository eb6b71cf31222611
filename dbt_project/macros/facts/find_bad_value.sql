{# SQL text: `condition then reason, ...` of the values that a dimension's type does not take; empty
   where it takes any. Of current rows only some columns are the key. #}
{% macro find_bad_value(value, image, is_key=true) -%}
    {%- set text = waltally.read_value_text(image) -%}
    {%- set named = 'the value of ' ~ value.column -%}
    {%- if value.kind == 'period' -%}
        {{ image }} = '\"unreadable"'
                then {{ waltally.quote_literal(named ~ ' is not a ' ~ value.type ~ ' of the years 1 to 9999') }}
    {%- elif value.kind == 'bucket' -%}
        {{ image }} = '\"unreadable"'
                then {{ waltally.quote_literal(named ~ ' is not a number') }}
    {%- else -%}
    {%- if value.kind == 'path' -%}
        {{ image }} = '\"unreadable"'
                then {{ waltally.quote_literal(named ~ ' is not JSON with readable texts') }}
            when has_{{ image.split('_')[0] }} and{{ ' ' }}
    {%- endif -%}
    {%- if value.value_type == 'uuid' -%}
        {{ image }} !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then {{ waltally.quote_literal(named ~ ' is not a uuid') }}
    {%- elif value.value_type == 'text' -%}
        {#- An entry of the index holds the whole key in 2,704 bytes: see find_long_key. -#}
        {{ 'octet_length(' ~ text ~ ') > 1000' if is_key else 'false' }}
                then {{ waltally.quote_literal(named ~ ' is longer than 1000 bytes') }}
    {%- else -%}
        not {{ waltally.get_staging_schema() }}.takes({{ waltally.quote_literal(value.value_type) }}, {{ text }})
                then {{ waltally.quote_literal(
                    named ~ ' is not a ' ~ value.value_type ~ ' of the years 1 to 9999'
                    if value.value_type in ['date', 'timestamp', 'timestamptz']
                    else named ~ ' is not of type ' ~ value.value_type
                ) }}
    {%- endif -%}
    {%- endif -%}
{%- endmacro %}
