{# SQL text: the value of one column of an image, where `plain` is what find_plain_string found. Two
   macros, because the value is used more than once here.

   A plain string is itself. Anything else is a backslash and its JSON, from the function
   image_value of the staging schema; null where the image lacks the column. So two values are equal
   where their texts are equal. #}
{% macro read_image_value(image, declared, column, plain) -%}
    {%- set names = waltally.list_column_names(declared, column) -%}
    case
        when {{ plain }} <> '' and strpos({{ plain }}, '\') = 0 then {{ plain }}
        {%- for name, parts in names.items() %}
        {{ 'else' if names | length == 1 else 'when part in (' ~ waltally.quote_literals(parts) ~ ') then' }} {{ waltally.get_staging_schema() }}.image_value({{ image }}, {{ waltally.quote_literal(name) }})
        {%- endfor %}
    end
{%- endmacro %}
