{# A name as SQL wants it: always in quotes, so any name works; not in the body of a `do $name$`. #}
{% macro quote_name(name) -%}
    "{{ name | replace('"', '""') }}"
{%- endmacro %}

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

{# SQL: the number of an advisory lock as cdc.lock_key has it, for what dbt makes while the staging schema may not be
   there yet. waltally/locks.py lists the kinds. #}
{% macro lock_key(kind, name) -%}
    x'{{ local_md5(['waltally', kind, name] | join('\n'))[:16] }}'::bigint
{%- endmacro %}
