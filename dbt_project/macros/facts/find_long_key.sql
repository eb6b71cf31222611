{# SQL text: `when condition then reason`, for an image whose texts do not fit together into an entry of the
   model's index. Empty for fewer than two texts. The entry has 2,704 bytes; 30 other columns, with 600 digits
   of numerics (see check_size), need up to 800. #}
{% macro find_long_key(keys, values, image) %}
    {%- set texts = keys | selectattr('type', 'equalto', 'text') | list -%}
    {%- if texts | length > 1 %}
            when has_{{ image }} and {% for value in texts -%}
                coalesce(octet_length({{ waltally.label_value(value, waltally.read_value_text(image ~ '_v' ~ values.index(value))) }}), 0)
                {{- '\n                + ' if not loop.last }}
                {%- endfor %} > 1800
                then {{ waltally.quote_literal(
                    'the values of ' ~ texts | map(attribute='column') | join(', ')
                    ~ ' together are longer than 1800 bytes'
                ) }}
    {%- endif -%}
{% endmacro %}
