{# A name as SQL wants it: always in quotes, so any name works, also in the body of a `do $name$`. Casts
   of text to regprocedure know plain quotes only: `for_text`. #}
{% macro quote_name(name, for_text=false) -%}
    {%- set doubled = name | replace('"', '""') -%}
    {%- if modules.re.search('[$]\\w*[$]', name) and not for_text -%}
        U&"{{ doubled | replace('\\', '\\\\') | replace('$', '\\0024') }}"
    {%- else -%}
        "{{ doubled }}"
    {%- endif -%}
{%- endmacro %}

{# A list of SQL, in one line where it is short, else an item a line. #}
{% macro join_list(items) -%}
    {{ items | join(', ' if items | join(', ') | length <= 60 else ',\n        ') }}
{%- endmacro %}

{# Names as SQL wants them, one after the other, each of a relation where one is given. #}
{% macro quote_names(names, relation=none) -%}
    {%- set quoted = [] -%}
    {%- for name in names -%}
        {%- do quoted.append((relation ~ '.' if relation else '') ~ waltally.quote_name(name)) -%}
    {%- endfor -%}
    {{ waltally.join_list(quoted) }}
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

{# Texts as a list of SQL strings. #}
{% macro quote_literals(texts) -%}
    {%- set quoted = [] -%}
    {%- for text in texts -%}{%- do quoted.append(waltally.quote_literal(text)) -%}{%- endfor -%}
    {{ waltally.join_list(quoted) }}
{%- endmacro %}

{# v0, v1, v2: names inside a query for so many columns, whatever the fact calls its own. #}
{% macro number_names(prefix, count) -%}
    {%- set names = [] -%}
    {%- for place in range(count) -%}{%- do names.append(prefix ~ place) -%}{%- endfor -%}
    {{ waltally.join_list(names) }}
{%- endmacro %}

{# SQL: the number of an advisory lock as cdc.lock_key has it, for what dbt makes while the staging schema may not be
   there yet. waltally/locks.py lists the kinds. #}
{% macro lock_key(kind, name) -%}
    x'{{ local_md5(['waltally', kind, name] | join('\n'))[:16] }}'::bigint
{%- endmacro %}
