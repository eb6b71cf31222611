{# SQL text, for a row `log` of slot_position: from which position the log holds every column that
   the fact needs; null where one is not followed yet. A fact that needs no column of a table, only
   its rows, asks for the first of the table's. #}
{% macro find_followed(declared) -%}
    (
        select case when count(*) = count(needed.since) then max(needed.since) end
        from (
            {%- for table in declared.tables %}
            {%- set last_table = loop.last %}
            {%- set columns = waltally.list_needed_columns(declared, table) %}
            {%- set followed = 'log.followed -> ' ~ waltally.quote_literal(table.schema ~ '.' ~ table.table) %}
            {%- for column in columns %}
            select
                least(
                    ({{ followed }} ->> {{ waltally.quote_literal(column) }})::pg_lsn,
                    ({{ followed }} ->> '*')::pg_lsn
                ) as since
            {{ 'union all' if not (last_table and loop.last) }}
            {%- else %}
            select min(held.since::pg_lsn) as since
            from jsonb_each_text({{ followed }}) as held (name, since)
            {{ 'union all' if not last_table }}
            {%- endfor %}
            {%- endfor %}
        ) as needed
    )
{%- endmacro %}
