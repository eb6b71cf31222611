{# A text of data or a name as a person may see it: each character that would do more than stand
   there is an escape. Otherwise it could forge a line or command the terminal. #}
{% macro escape_text(text) -%}
    {%- set harmful = '([\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff])' -%}
    {%- for part in modules.re.split(harmful, text | string) -%}
        {{ part if loop.index is odd else part.encode('unicode_escape').decode() }}
    {%- endfor -%}
{%- endmacro %}
