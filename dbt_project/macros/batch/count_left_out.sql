{# SQL text: how many rows of each part belong to no group after this batch. A rebuild starts from
   what the seed left out. Any other batch starts from `before`. A TRUNCATE of the part starts from
   zero. #}
{% macro count_left_out(declared, before) -%}
    (
        select
            jsonb_object_agg(
                parts.part,
                case
                    when (batch.parts -> parts.part -> 'is_truncated')::boolean then 0
                    when {{ waltally.is_rebuild() }} then coalesce((
                        select (baseline.left_out ->> parts.part)::bigint
                        from {{ source('cdc', 'baseline') }} as baseline
                        where
                            baseline.slot_name = '{{ waltally.get_slot_name() }}'
                            and baseline.fact_name = {{ waltally.quote_literal(model.name) }}
                    ), 0)
                    else coalesce(({{ before }}::jsonb -> parts.part)::bigint, 0)
                end + coalesce((batch.parts -> parts.part -> 'row_count')::bigint, 0)
            )
        from (
            values
            {%- for table in declared.tables %}
            ({{ waltally.quote_literal(table.name) }}){{ ',' if not loop.last }}
            {%- endfor %}
        ) as parts (part)
        cross join (
            select coalesce({{ waltally.get_batch_setting('left_out') }}, '{}')::jsonb as parts
        ) as batch
    )
{%- endmacro %}
