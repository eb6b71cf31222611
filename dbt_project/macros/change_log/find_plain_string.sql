{# SQL text: the value of one column of an image, up to the next quote, where it is a string; empty
   where it is not. An image is an array of {"name": ..., "value": ...} as text. Parsing all of it
   as JSON costs five times as much.

   The result is right where it holds no backslash: then the next quote ends the string, and the
   name with its colon and brace cannot be part of a value, where the quotes would be escaped.
   read_image_value takes care of the rest. #}
{% macro find_plain_string(image, column) -%}
    {%- set before = '{"name":' ~ waltally.print_json_string(column) ~ ',"value":"' -%}
    split_part(split_part({{ image }}, {{ waltally.quote_literal(before) }}, 2), '"', 1)
{%- endmacro %}
