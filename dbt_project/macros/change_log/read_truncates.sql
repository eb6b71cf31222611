{# The last TRUNCATE of each table in the batch: table_no, commit_lsn, ordinal. The condition is that of the
   index change_log_truncates, word for word, or the whole batch would be read. #}
{% macro read_truncates(readables, slot, batch) %}
    select distinct on (numbered.table_no)
        numbered.table_no,
        log.commit_lsn,
        log.ordinal
    from {{ source('cdc', 'change_log') }} as log
    cross join lateral (
        select {{ waltally.get_staging_schema() }}.jsonb_or_null(log.payload) as message
    ) as parsed
    inner join (
        values
        {%- for readable in readables %}
        ({{ loop.index }}, {{ waltally.quote_literal(readable.schema ~ '.' ~ readable.table) }}){{ ',' if not loop.last }}
        {%- endfor %}
    ) as numbered (table_no, name)
        on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
    where
        log.slot_name = {{ slot }}
        and {{ batch }}
        and (log.action is null or log.action = 'T')
        and parsed.message ->> 'action' = 'T'
    order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
{% endmacro %}
