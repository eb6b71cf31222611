{# A text as an SQL string. One that could end the body of a `do $name$` is written without its
   dollars. #}
{% macro quote_literal(text) -%}
    {%- set doubled = text | replace("'", "''") -%}
    {%- if modules.re.search('[$]\\w*[$]', text | string) -%}
        E'{{ doubled | replace('\\', '\\\\') | replace('$', '\\x24') }}'
    {%- else -%}
        '{{ doubled }}'
    {%- endif -%}
{%- endmacro %}
