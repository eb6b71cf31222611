{# The tables of a list like `public.a,"Odd, name".b`, each as [schema, name] without quotes: the
   dialect that the loader and the seed read. #}
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

{# The table that feeds a part of the counts, as [schema, name]: 0 the live rows, 1 the archive. #}
{% macro counted_table(place) %}
    {{ return(parse_tables(
        env_var('LOADER_TABLES', 'public.notifications,public.notification_history')
    )[place]) }}
{% endmacro %}
