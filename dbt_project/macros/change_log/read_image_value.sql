{# SQL text: the value of one column of an image, where `plain` is what find_plain_string found.

   A plain string is itself. Anything else is a backslash and its JSON, from the function
   image_value of the staging schema; null where the image lacks the column. So two values are equal
   where their texts are equal. #}
{% macro read_image_value(image, column, plain) -%}
    case
                    when {{ plain }} <> '' and strpos({{ plain }}, '\') = 0 then {{ plain }}
                    else {{ waltally.get_staging_schema() }}.image_value({{ image }}, {{ waltally.quote_literal(column) }})
                end
{%- endmacro %}
