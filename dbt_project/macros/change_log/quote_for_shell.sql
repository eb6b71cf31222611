{# SQL text: a text as one word of a shell command, for a hint that can be pasted. #}
{% macro quote_for_shell(text) -%}
    '''' || replace({{ text }}, '''', '''\''''') || ''''
{%- endmacro %}
