{# SQL text, for a row with its plugin_action: the number of the table that the change names, from 1; 0
   for one that no fact reads; null where it names none.

   The names are looked for in the text first, as wal2json prints them. That is safe: inside a value the
   quotes would be escaped. Any other name without a backslash is then another table, whose text need not be
   parsed. #}
{% macro read_table(readables) -%}
    case
            {%- for readable in readables %}
            {%- set printed = '"schema":' ~ waltally.print_json_string(readable.schema)
                ~ ',"table":' ~ waltally.print_json_string(readable.table) %}
            when plugin_action is not null and strpos(payload, {{ waltally.quote_literal(printed) }}) > 0
                then {{ loop.index }}
            {%- endfor %}
            when plugin_action is not null and left(payload, 512) ~ '"schema":"[^"\\]*","table":"[^"\\]*"'
                then 0
            else (
                select case parsed.change ->> 'schema' || '.' || (parsed.change ->> 'table')
                    {%- for readable in readables %}
                    when {{ waltally.quote_literal(readable.schema ~ '.' ~ readable.table) }} then {{ loop.index }}
                    {%- endfor %}
                    else case when parsed.change ? 'schema' and parsed.change ? 'table' then 0 end
                end
                from (
                    select
                        coalesce(
                            message, {{ waltally.get_staging_schema() }}.jsonb_or_null(payload)
                        ) as change
                ) as parsed
            )
        end
{%- endmacro %}
