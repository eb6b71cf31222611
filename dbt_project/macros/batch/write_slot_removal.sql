{# SQL text: the statements that forget a slot's part in the model, for a hint. #}
{% macro write_slot_removal(slot) -%}
    format(
        'delete from %1$I.model_watermark where model_name = %2$L and slot_name = %3$L; '
        'delete from %1$I.fact where fact_name = %4$L and slot_name = %3$L;',
        {{ waltally.quote_literal(env_var('LOADER_SCHEMA', var('loader_schema', 'cdc'))) }},
        model,
        {{ slot }},
        {{ waltally.quote_literal(model.name) }}
    )
{%- endmacro %}
