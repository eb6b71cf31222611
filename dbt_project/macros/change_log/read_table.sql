{# SQL text, for a row with its plugin_action: the table that the change names, as schema.name.

   The names of the fact's tables are looked for in the text first, as wal2json prints them. That is
   safe: inside a value the quotes would be escaped. Any other name without a backslash is then
   another table, whose text need not be parsed. #}
{% macro read_table(tables) -%}
    case
        {%- for table in tables %}
        {%- set printed = '"schema":' ~ waltally.print_json_string(table.schema)
            ~ ',"table":' ~ waltally.print_json_string(table.table) %}
        when plugin_action is not null and strpos(payload, {{ waltally.quote_literal(printed) }}) > 0
            then {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}
        {%- endfor %}
        when plugin_action is not null and left(payload, 512) ~ '"schema":"[^"\\]*","table":"[^"\\]*"'
            then ''
        else (
            select (parsed.change ->> 'schema') || '.' || (parsed.change ->> 'table')
            from (
                select
                    coalesce(
                        message, {{ waltally.get_staging_schema() }}.jsonb_or_null(payload)
                    ) as change
            ) as parsed
        )
    end
{%- endmacro %}
