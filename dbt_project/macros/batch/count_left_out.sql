{# SQL text: how many rows of each part belong to no group after this batch. A rebuild starts from
   what the seed left out. Any other batch starts from `before`. A TRUNCATE of the part starts from
   zero. #}
{% macro count_left_out(before) -%}
    (
        select
            jsonb_object_agg(
                parts.part,
                case
                    when (batch.parts -> parts.part -> 'is_truncated')::boolean then 0
                    when {{ is_rebuild() }} then coalesce((
                        select sum(in_seed.row_count::bigint)
                        from {{ source('cdc', 'historical_snapshot') }} as seed
                        cross join jsonb_each_text(seed.left_out) as in_seed (source_table, row_count)
                        where
                            {{ model.config.meta.get('seeded', true) }}
                            and seed.slot_name = '{{ get_slot_name() }}'
                            and {{ get_part('in_seed.source_table') }} = parts.part
                    ), 0)
                    else coalesce(({{ before }}::jsonb -> parts.part)::bigint, 0)
                end + coalesce((batch.parts -> parts.part -> 'row_count')::bigint, 0)
            )
        from (values ('live'), ('archived')) as parts (part)
        cross join (
            select coalesce({{ get_batch_setting('left_out') }}, '{}')::jsonb as parts
        ) as batch
    )
{%- endmacro %}
