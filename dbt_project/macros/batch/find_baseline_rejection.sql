{# SQL text: a position just before the baseline, where this is a rebuild and the seed could not
   count some rows; null otherwise. #}
{% macro find_baseline_rejection() -%}
    (
        select baseline.snapshot_lsn - 1
        from {{ source('cdc', 'baseline') }} as baseline
        where
            {{ waltally.is_rebuild() }}
            and baseline.slot_name = '{{ waltally.get_slot_name() }}'
            and baseline.fact_name = {{ waltally.quote_literal(model.name) }}
            and exists (
                select from {{ source('cdc', 'baseline_rejection') }} as rejected
                where
                    rejected.slot_name = baseline.slot_name
                    and rejected.fact_name = baseline.fact_name
            )
    )
{%- endmacro %}
