{# A step of list_rejections: the rows that the seed could not count, one line for each table and
   reason. #}
{% macro list_baseline_rejections(listed, declared) %}
        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        select
            {{ waltally.quote_literal(waltally.get_model_key()) }},
            baseline.slot_name,
            baseline.snapshot_lsn,
            -row_number() over (order by rejected.part, rejected.reason),
            0,
            baseline.counted_at,
            case rejected.part
                {%- for table in declared.tables %}
                when {{ waltally.quote_literal(table.name) }} then {{ waltally.quote_literal(table.schema ~ '.' ~ table.table) }}
                {%- endfor %}
            end,
            'baseline',
            rejected.reason,
            jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
        from {{ source('cdc', 'baseline_rejection') }} as rejected
        inner join {{ source('cdc', 'baseline') }} as baseline
            on
                baseline.slot_name = rejected.slot_name
                and baseline.fact_name = rejected.fact_name
        where
            baseline.slot_name = '{{ waltally.get_slot_name() }}'
            and baseline.fact_name = {{ waltally.quote_literal(model.name) }};
{% endmacro %}
