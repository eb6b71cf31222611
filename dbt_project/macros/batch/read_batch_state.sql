{# A step of bound_batch: read the slot's position, the fact's registration, the model's watermark
   and the baseline. followed_lsn is the position from which the log holds everything that the fact
   needs; null where something is not followed yet. #}
{% macro read_batch_state(declared) -%}
select
        log.start_lsn,
        log.pruned_from_lsn,
        log.position_lsn,
        log.system_identifier,
        fact.declaration,
        model_watermark.applied_lsn,
        model_watermark.definition,
        model_watermark.declaration as built_by,
        model_watermark.baseline_id as built_on,
        baseline.baseline_id,
        baseline.declaration as counted_by,
        baseline.snapshot_lsn,
        baseline.system_identifier as baseline_system,
        exists (
            select from {{ source('cdc', 'baseline') }} as any_fact
            where any_fact.slot_name = log.slot_name
        ) as has_any_baseline,
        {{ waltally.find_followed(declared) }} as followed_lsn
    into state
    from {{ source('cdc', 'slot_position') }} as log
    left join {{ source('cdc', 'fact') }} as fact
        on fact.slot_name = log.slot_name
            and fact.fact_name = {{ waltally.quote_literal(model.name) }}
    left join {{ source('cdc', 'model_watermark') }} as model_watermark
        on model_watermark.slot_name = log.slot_name and model_watermark.model_name = model
    left join {{ source('cdc', 'baseline') }} as baseline
        on baseline.slot_name = log.slot_name and baseline.fact_name = fact.fact_name
    where log.slot_name = '{{ waltally.get_slot_name() }}';

    if not found then
        raise exception 'no change log for slot {{ waltally.get_slot_name() }}'
            using hint = 'Run loader setup, or set LOADER_SLOT to the slot that it made.';
    end if;
    if state.declaration is null then
        raise exception '{{ model.name }} is not registered for slot {{ waltally.get_slot_name() }}'
            using hint = 'Run loader setup, then dbt build.';
    end if;
    if state.declaration <> compiled then
        raise exception '{{ model.name }} declares something else than loader setup registered for slot {{ waltally.get_slot_name() }}'
            using hint = 'Run loader setup, then dbt build.';
    end if;
{%- endmacro %}
