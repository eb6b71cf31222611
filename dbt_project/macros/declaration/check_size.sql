{# Refuse a model whose table or index could not be made, or whose rows might not fit: a row fills a
   page of 8 kB at most, where a long value takes 18 bytes. `key` are the columns of its index,
   `columns` those of its table besides. #}
{% macro check_size(what, key, columns, longest) %}
    {#- A unit test has a name of its own. -#}
    {%- if model.resource_type == 'model'
        and (longest | replace('%', model.name)).encode('utf-8') | length > 63 -%}
        {%- do waltally.refuse_declaration(
            "the model's name has more than " ~ (64 - longest | length) ~ ' bytes, and '
            ~ (longest | replace('%', model.name))
            ~ ' would have more than 63; it takes a shorter name'
        ) -%}
    {%- elif key | length > 32 -%}
        {%- do waltally.refuse_declaration(
            what ~ ' has ' ~ key | length ~ ' columns; it takes 32 at most, as an index does'
        ) -%}
    {%- elif key | length + columns | length > 400 -%}
        {%- do waltally.refuse_declaration(
            'the model has ' ~ (key | length + columns | length) ~ ' columns; it takes 400 at most, '
            ~ 'because a row of more may not fit in a page'
        ) -%}
    {%- endif -%}
{% endmacro %}
