{# SQL text, always true: note what the model's query could not count, for list_rejections and
   move_watermark. rejected_lsn is the newest change that could not be counted. left_out says for
   each part how many rows more belong to no group, and whether a TRUNCATE came before them. #}
{% macro record_uncounted(deltas) -%}
    (
        select
            set_config(
                'waltally.rejected_lsn',
                coalesce(max(last_lsn) filter (where rejected_reason is not null)::text, ''),
                true
            )
        from {{ deltas }}
    ) is not null
    and (
        select
            set_config(
                'waltally.left_out', coalesce(jsonb_object_agg(part, left_out)::text, ''), true
            )
        from (
            select
                part,
                jsonb_build_object(
                    'row_count', sum(left_out),
                    'is_truncated',
                    coalesce(bool_or(action = 'T' and rejected_reason is null), false)
                ) as left_out
            from {{ deltas }}
            where part is not null
            group by part
        ) as parts
    ) is not null
{%- endmacro %}
