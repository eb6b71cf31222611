{# SQL text: a jsonb list of [schema, table], spelled as LOADER_TABLES spells it. #}
{% macro list_tables(tables) -%}
    (
        select
            string_agg(
                quote_ident(listed.names ->> 0) || '.' || quote_ident(listed.names ->> 1),
                ',' order by listed.place
            )
        from jsonb_array_elements({{ tables }}) with ordinality as listed (names, place)
    )
{%- endmacro %}
