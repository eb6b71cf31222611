{# SQL text: a position just before the baseline, where this is a rebuild and the seed could not
   count some rows; null otherwise. #}
{% macro find_baseline_rejection() -%}
    (
        select seed.snapshot_lsn - 1
        from {{ source('cdc', 'historical_snapshot') }} as seed
        where
            {{ is_rebuild() }}
            and {{ model.config.meta.get('seeded', true) }}
            and seed.slot_name = '{{ get_slot_name() }}'
            and exists (
                select from {{ source('cdc', 'historical_rejections') }} as rejected
                where rejected.slot_name = seed.slot_name
            )
    )
{%- endmacro %}
