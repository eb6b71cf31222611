{# [schema, name] of a table such as public.orders or "Odd, name".orders, without the quotes. #}
{% macro split_table(text) %}
    {%- set part = '\\s*(?:"(?:[^"]|"")+"|[^\\s",.]+)\\s*' -%}
    {%- if not modules.re.fullmatch(part ~ '[.]' ~ part, text) -%}
        {%- do waltally.refuse_declaration(
            text ~ ' is not schema.table; a name with a dot, a comma or a blank goes in double quotes'
        ) -%}
    {%- endif -%}
    {%- set names = [] -%}
    {%- for name in modules.re.findall(part, text) | map('trim') -%}
        {%- set plain = name[1:-1].replace('""', '"') if name[0] == '"' else name -%}
        {%- do waltally.check_name('a table', plain) -%}
        {%- do names.append(plain) -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}
