{# Refuse a model whose table or index could not be made, or whose rows might not fit: a row fills a
   page of 8 kB at most, where a long value takes 18 bytes. `key` are the columns of its index,
   `columns` those of its table besides, `types` those of the key. #}
{% macro check_size(what, key, columns, longest, types) %}
    {%- set digits = [] -%}
    {%- for type in types if waltally.is_numeric_type(type) -%}
        {%- do digits.append(modules.re.findall('[0-9]+', type)[0] | int) -%}
    {%- endfor -%}
    {%- set long_name = longest | replace('%', model.name) -%}
    {%- do waltally.check_declaration([
        [
            model.resource_type == 'model' and long_name.encode('utf-8') | length > 63,
            "the model's name has more than " ~ (64 - longest | length) ~ ' bytes, and ' ~ long_name
            ~ ' would have more than 63; it takes a shorter name',
        ],
        [
            key | length > 32,
            what ~ ' has ' ~ key | length ~ ' columns; it takes 32 at most, as an index does',
        ],
        [
            digits | sum > 600,
            what ~ ' has numeric columns of ' ~ digits | sum ~ ' digits together; it takes 600 at most, '
            ~ 'because an index has no room for more, and text fits the rest',
        ],
        [
            key | length + columns | length > 400,
            'the model has ' ~ (key | length + columns | length) ~ ' columns; it takes 400 at most, '
            ~ 'because a row of more may not fit in a page',
        ],
    ]) -%}
{% endmacro %}
