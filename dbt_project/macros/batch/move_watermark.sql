{# Record what this transaction applied, in this transaction. Writes nothing where nothing moved:
   staging may live in the source database, where each write is WAL for the loader to read. #}
{% macro move_watermark() %}
do $move_watermark$
begin
    -- The model read the seed in a later snapshot than bound_batch; seed ids do not return.
    if {{ is_rebuild() }} and {{ model.config.meta.get('seeded', true) }} and (
        select seed.seed_id
        from {{ source('cdc', 'historical_snapshot') }} as seed
        where seed.slot_name = '{{ slot_name() }}'
    ) is distinct from {{ batch_setting('seed_id') }}::uuid then
        raise exception 'the historical seed was replaced during the build of %', {{ literal(model_key()) }}
            using hint = 'Run dbt build again.';
    end if;

    -- Between bound_batch and the model's reading a partition may have gone; start_lsn moves first.
    if (
        select log.start_lsn
        from {{ source('cdc', 'slot_position') }} as log
        where log.slot_name = '{{ slot_name() }}'
    ) > {{ batch_setting('from_lsn') }}::pg_lsn then
        raise exception 'the change log that % read was pruned during the build', {{ literal(model_key()) }}
            using hint = 'Run dbt build again.';
    end if;

    insert into {{ source('cdc', 'model_watermark') }} as stored (
        model_name, slot_name, applied_lsn, seed_id, rejected_lsn, definition, left_out
    )
    values (
        {{ literal(model_key()) }},
        '{{ slot_name() }}',
        {{ batch_setting('to_lsn') }}::pg_lsn,
        {{ batch_setting('seed_id') }}::uuid,
        greatest({{ batch_setting('rejected_lsn') }}::pg_lsn, {{ rejected_in_seed() }}),
        '{{ definition() }}',
        {{ left_out("'{}'") }}
    )
    on conflict (model_name, slot_name) do update
    set
        applied_lsn = excluded.applied_lsn,
        seed_id = excluded.seed_id,
        rejected_lsn = case
            when {{ is_rebuild() }} then excluded.rejected_lsn
            else greatest(stored.rejected_lsn, excluded.rejected_lsn)
        end,
        definition = excluded.definition,
        left_out = case
            when {{ is_rebuild() }} then excluded.left_out
            else {{ left_out('stored.left_out') }}
        end,
        moved_at = excluded.moved_at
    where (stored.applied_lsn, stored.seed_id, stored.definition)
        is distinct from (excluded.applied_lsn, excluded.seed_id, excluded.definition);
end
$move_watermark$
{% endmacro %}

{# SQL text: a place just before the seed, where this is a rebuild and the seed rejected rows. #}
{% macro rejected_in_seed() -%}
    (
        select seed.snapshot_lsn - 1
        from {{ source('cdc', 'historical_snapshot') }} as seed
        where
            {{ is_rebuild() }}
            and {{ model.config.meta.get('seeded', true) }}
            and seed.slot_name = '{{ slot_name() }}'
            and exists (
                select from {{ source('cdc', 'historical_rejections') }} as rejected
                where rejected.slot_name = seed.slot_name
            )
    )
{%- endmacro %}

{# SQL text: how many rows of each part belong to no group, after this batch. A rebuild begins with
   what the seed left out, any other batch with `before`; after a TRUNCATE of the part with none. #}
{% macro left_out(before) -%}
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
                            and seed.slot_name = '{{ slot_name() }}'
                            and {{ part_of('in_seed.source_table') }} = parts.part
                    ), 0)
                    else coalesce(({{ before }}::jsonb -> parts.part)::bigint, 0)
                end + coalesce((batch.parts -> parts.part -> 'row_count')::bigint, 0)
            )
        from (values ('live'), ('archived')) as parts (part)
        cross join (
            select coalesce({{ batch_setting('left_out') }}, '{}')::jsonb as parts
        ) as batch
    )
{%- endmacro %}
