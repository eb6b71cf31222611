{# One column of a wal2json image, as jsonb: SQL null where the image does not carry the column,
   JSON null where the column is null. An image is [{"name": ..., "value": ...}, ...]. #}
{% macro image_value(image, column) -%}
    jsonb_path_query_first({{ image }}, '$[*] ? (@.name == "{{ column }}").value')
{%- endmacro %}

{# The text of an image's value; null where it is absent or null. #}
{% macro value_text(value) -%}
    ({{ value }} #>> '{}')
{%- endmacro %}
