{# A step of bound_batch: read the slot's position, the model's watermark and the baseline. #}
{% macro read_batch_state() -%}
select
        log.start_lsn,
        log.pruned_from_lsn,
        log.position_lsn,
        log.system_identifier,
        log.registered_tables,
        jsonb_path_query_array(log.registered_tables, '$[0 to 1]') as counted_tables,
        model_watermark.applied_lsn,
        model_watermark.definition,
        model_watermark.seed_id as built_on,
        seed.seed_id,
        seed.snapshot_lsn,
        seed.system_identifier as seed_system
    into state
    from {{ source('cdc', 'slot_position') }} as log
    left join {{ source('cdc', 'model_watermark') }} as model_watermark
        on model_watermark.slot_name = log.slot_name and model_watermark.model_name = model
    left join {{ source('cdc', 'historical_snapshot') }} as seed
        on seed.slot_name = log.slot_name and {{ model.config.meta.get('seeded', true) }}
    where log.slot_name = '{{ get_slot_name() }}';

    if not found then
        raise exception 'no change log for slot {{ get_slot_name() }}'
            using hint = 'Run loader setup, or set LOADER_SLOT to the slot that it made.';
    end if;
{%- endmacro %}
