{# Record what this transaction applied, in the same transaction. Where nothing moved it writes
   nothing: staging may live in the source database, where each write is WAL for the loader to read.
   #}
{% macro move_watermark() %}
do $move_watermark$
begin
    -- The model read the baseline in a later snapshot than bound_batch. A seed's id is never used again.
    if {{ is_rebuild() }} and {{ model.config.meta.get('seeded', true) }} and (
        select seed.seed_id
        from {{ source('cdc', 'historical_snapshot') }} as seed
        where seed.slot_name = '{{ get_slot_name() }}'
    ) is distinct from {{ get_batch_setting('seed_id') }}::uuid then
        raise exception 'the baseline was replaced during the build of %', {{ quote_literal(get_model_key()) }}
            using hint = 'Run dbt build again.';
    end if;

    -- A prune may have dropped a partition between bound_batch and the model's query. It moves
    -- start_lsn before it drops anything.
    if (
        select log.start_lsn
        from {{ source('cdc', 'slot_position') }} as log
        where log.slot_name = '{{ get_slot_name() }}'
    ) > {{ get_batch_setting('from_lsn') }}::pg_lsn then
        raise exception 'the change log that % read was pruned during the build', {{ quote_literal(get_model_key()) }}
            using hint = 'Run dbt build again.';
    end if;

    insert into {{ source('cdc', 'model_watermark') }} as stored (
        model_name, slot_name, applied_lsn, seed_id, rejected_lsn, definition, left_out
    )
    values (
        {{ quote_literal(get_model_key()) }},
        '{{ get_slot_name() }}',
        {{ get_batch_setting('to_lsn') }}::pg_lsn,
        {{ get_batch_setting('seed_id') }}::uuid,
        greatest({{ get_batch_setting('rejected_lsn') }}::pg_lsn, {{ find_baseline_rejection() }}),
        '{{ hash_derived() }}',
        {{ count_left_out("'{}'") }}
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
            else {{ count_left_out('stored.left_out') }}
        end,
        moved_at = excluded.moved_at
    where (stored.applied_lsn, stored.seed_id, stored.definition)
        is distinct from (excluded.applied_lsn, excluded.seed_id, excluded.definition);
end
$move_watermark$
{% endmacro %}
