{# SQL text: the statement that forgets the model's watermark of a slot, for a hint. #}
{% macro write_watermark_delete(slot) -%}
    format(
        'delete from %I.model_watermark where model_name = %L and slot_name = %L;',
        {{ quote_literal(env_var('LOADER_SCHEMA', 'cdc')) }}, model, {{ slot }}
    )
{%- endmacro %}
