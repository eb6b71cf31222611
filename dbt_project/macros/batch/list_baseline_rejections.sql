{# A step of list_rejections: the rows that the seed could not count, one line for each table and
   reason. #}
{% macro list_baseline_rejections(listed) %}
        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        select
            {{ quote_literal(get_model_key()) }},
            seed.slot_name,
            seed.snapshot_lsn,
            -row_number() over (order by rejected.source_table, rejected.reason),
            0,
            seed.seeded_at,
            rejected.source_table,
            'baseline',
            rejected.reason,
            jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
        from {{ source('cdc', 'historical_rejections') }} as rejected
        inner join {{ source('cdc', 'historical_snapshot') }} as seed
            on seed.slot_name = rejected.slot_name
        where
            seed.slot_name = '{{ get_slot_name() }}'
            and {{ get_part('rejected.source_table') }} is not null;
{% endmacro %}
