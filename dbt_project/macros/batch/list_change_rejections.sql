{# A step of list_rejections: the changes of the batch that a fact could not count. #}
{% macro list_change_rejections(declared) %}
        with changes as (
            {{ waltally.compute_deltas(declared, each_change=true) }}
        )

        select
            {{ waltally.quote_literal(waltally.get_model_key()) }},
            slot_name,
            commit_lsn,
            ordinal,
            xid,
            committed_at,
            source_table,
            action,
            rejected_reason,
            payload
        from changes
        where rejected_reason is not null
{% endmacro %}
