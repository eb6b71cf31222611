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
        raise exception 'the historical seed was replaced during the build of {{ model_key() }}'
            using hint = 'Run dbt build again.';
    end if;

    -- Between bound_batch and the model's reading a partition may have gone; start_lsn moves first.
    if (
        select log.start_lsn
        from {{ source('cdc', 'slot_position') }} as log
        where log.slot_name = '{{ slot_name() }}'
    ) > {{ batch_setting('from_lsn') }}::pg_lsn then
        raise exception 'the change log that {{ model_key() }} read was pruned during the build'
            using hint = 'Run dbt build again.';
    end if;

    insert into {{ source('cdc', 'model_watermark') }} as stored (
        model_name, slot_name, applied_lsn, seed_id, rejected_lsn
    )
    values (
        '{{ model_key() }}',
        '{{ slot_name() }}',
        {{ batch_setting('to_lsn') }}::pg_lsn,
        {{ batch_setting('seed_id') }}::uuid,
        {{ batch_setting('rejected_lsn') }}::pg_lsn
    )
    on conflict (model_name, slot_name) do update
    set
        applied_lsn = excluded.applied_lsn,
        seed_id = excluded.seed_id,
        rejected_lsn = case
            when {{ is_rebuild() }} then excluded.rejected_lsn
            else greatest(stored.rejected_lsn, excluded.rejected_lsn)
        end,
        moved_at = excluded.moved_at
    where (stored.applied_lsn, stored.seed_id)
        is distinct from (excluded.applied_lsn, excluded.seed_id);
end
$move_watermark$
{% endmacro %}
