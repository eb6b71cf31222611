{# A name as SQL wants it: always in quotes, so any name works, also in the body of a `do $name$`. #}
{% macro quote_name(name) -%}
    {%- set doubled = name | replace('"', '""') -%}
    {%- if modules.re.search('[$]\\w*[$]', name) -%}
        U&"{{ doubled | replace('\\', '\\\\') | replace('$', '\\0024') }}"
    {%- else -%}
        "{{ doubled }}"
    {%- endif -%}
{%- endmacro %}
