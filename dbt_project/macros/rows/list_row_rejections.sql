{# A step of list_rejections: the changes of the batch that apply_rows could not apply. #}
{% macro list_row_rejections(batch) %}
        select
            {{ waltally.quote_literal(waltally.get_model_key()) }},
            log.slot_name,
            log.commit_lsn,
            log.ordinal,
            log.xid,
            log.committed_at,
            batch.source_table,
            batch.action,
            batch.rejected_reason,
            log.payload
        from {{ batch }} as batch
        inner join {{ source('cdc', 'change_log') }} as log
            on
                log.slot_name = '{{ waltally.get_slot_name() }}'
                and log.commit_lsn = batch.commit_lsn
                and log.ordinal = batch.ordinal
        where batch.rejected_reason is not null
{% endmacro %}
