{# A name as SQL wants it: always in quotes, so any name works. #}
{% macro quote_name(name) -%}
    "{{ name | replace('"', '""') }}"
{%- endmacro %}
