{# One column of an image, an array of {"name": ..., "value": ...} as text, in two steps, as the
   second uses the first more than once. Parsing the whole JSON costs five times as much, and which
   place a column has does not matter here.

   plain_string: the text up to the next quote where the value is a string, empty where it is not.
   Right where it holds no backslash: an unescaped quote ends the string, and this name with this
   colon and brace, unescaped, is no part of any value.

   image_value: that, or what the database's own reading makes of it (see the function image_value
   of the staging schema): null where the image lacks the column; a backslash and JSON for anything
   but a plain string. So two values are equal where their texts are. #}
{% macro plain_string(image, column) -%}
    {%- set before = '{"name":' ~ tojson(column) ~ ',"value":"' -%}
    split_part(split_part({{ image }}, '{{ before | replace("'", "''") }}', 2), '"', 1)
{%- endmacro %}

{% macro image_value(image, column, plain) -%}
    case
        when {{ plain }} <> '' and strpos({{ plain }}, '\') = 0 then {{ plain }}
        else {{ staging_schema() }}.image_value({{ image }}, '{{ column }}')
    end
{%- endmacro %}

{# SQL text: is the image's value JSON's null? #}
{% macro is_json_null(value) -%}
    {{ value }} = '\null'
{%- endmacro %}

{# The text of an image's value; null where it is absent or JSON's null. #}
{% macro value_text(value) -%}
    case when left({{ value }}, 1) = '\' then substr({{ value }}, 2)::jsonb #>> '{}' else {{ value }} end
{%- endmacro %}
