{# SQL text, for a row with its plugin_action: the table that the change names, as schema.name.

   The names of the counted tables are looked for in the text first, as wal2json prints them. That
   is safe: inside a value the quotes would be escaped. #}
{% macro read_table() -%}
    case
        {%- for place in [0, 1] %}
        {%- set table = get_counted_table(place) %}
        {%- set printed = '"schema":' ~ tojson(table[0]) ~ ',"table":' ~ tojson(table[1]) %}
        when plugin_action is not null and strpos(payload, {{ quote_literal(printed) }}) > 0
            then {{ quote_literal(table | join('.')) }}
        {%- endfor %}
        else (
            select (parsed.change ->> 'schema') || '.' || (parsed.change ->> 'table')
            from (
                select coalesce(message, {{ get_staging_schema() }}.jsonb_or_null(payload)) as change
            ) as parsed
        )
    end
{%- endmacro %}
