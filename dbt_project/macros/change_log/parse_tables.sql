{# The tables of a list like `public.a,"Odd, name".b`, each as [schema, name] without quotes. The
   loader and the seed read the same spelling. #}
{% macro parse_tables(list) %}
    {%- set part = '\\s*(?:"(?:[^"]|"")+"|[^\\s",.]+)\\s*' -%}
    {%- set table = part ~ '[.]' ~ part -%}
    {%- if not modules.re.fullmatch(table ~ '(?:,' ~ table ~ ')*', list) -%}
        {{ exceptions.raise_compiler_error('Not a list like schema.table,schema.table: ' ~ list) }}
    {%- endif -%}
    {%- set names = [] -%}
    {%- for name in modules.re.findall(part, list) | map('trim') -%}
        {%- do names.append(name[1:-1].replace('""', '"') if name[0] == '"' else name) -%}
    {%- endfor -%}
    {{ return(names | batch(2) | list) }}
{% endmacro %}
