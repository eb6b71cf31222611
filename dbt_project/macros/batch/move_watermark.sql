{# Record what this transaction applied, in the same transaction. Where nothing moved it writes
   nothing: staging may live in the source database, where each write is WAL for the loader to read.
   #}
{% macro move_watermark(declared) %}
{%- set model_key = waltally.quote_literal(waltally.get_model_key()) -%}
do $move_watermark$
begin
    -- The model read the baseline in a later snapshot than bound_batch. A baseline's id is never used
    -- again.
    if {{ waltally.is_rebuild() }} and (
        select baseline.baseline_id
        from {{ source('cdc', 'baseline') }} as baseline
        where
            baseline.slot_name = '{{ waltally.get_slot_name() }}'
            and baseline.fact_name = {{ waltally.quote_literal(model.name) }}
    ) is distinct from {{ waltally.get_batch_setting('baseline_id') }}::uuid then
        raise exception 'the baseline was replaced during the build of %', {{ model_key }}
            using hint = 'Run dbt build again.';
    end if;

    -- A prune may have dropped a partition between bound_batch and the model's query. It moves
    -- start_lsn before it drops anything.
    if (
        select log.start_lsn
        from {{ source('cdc', 'slot_position') }} as log
        where log.slot_name = '{{ waltally.get_slot_name() }}'
    ) > {{ waltally.get_batch_setting('from_lsn') }}::pg_lsn then
        raise exception 'the change log that % read was pruned during the build', {{ model_key }}
            using hint = 'Run dbt build again.';
    end if;

    insert into {{ source('cdc', 'model_watermark') }} as stored (
        model_name, slot_name, applied_lsn, baseline_id, declaration, rejected_lsn, definition, left_out
    )
    values (
        {{ model_key }},
        '{{ waltally.get_slot_name() }}',
        {{ waltally.get_batch_setting('to_lsn') }}::pg_lsn,
        {{ waltally.get_batch_setting('baseline_id') }}::uuid,
        {{ waltally.quote_literal(tojson(declared)) }}::jsonb,
        greatest({{ waltally.get_batch_setting('rejected_lsn') }}::pg_lsn, {{ waltally.find_baseline_rejection() }}),
        '{{ waltally.hash_derived() }}',
        {{ waltally.count_left_out(declared, "'{}'") }}
    )
    on conflict (model_name, slot_name) do update
    set
        applied_lsn = excluded.applied_lsn,
        baseline_id = excluded.baseline_id,
        declaration = excluded.declaration,
        rejected_lsn = case
            when {{ waltally.is_rebuild() }} then excluded.rejected_lsn
            else greatest(stored.rejected_lsn, excluded.rejected_lsn)
        end,
        definition = excluded.definition,
        left_out = case
            when {{ waltally.is_rebuild() }} then excluded.left_out
            else {{ waltally.count_left_out(declared, 'stored.left_out') }}
        end,
        moved_at = excluded.moved_at
    where
        {{ waltally.is_rebuild() }}
        or (stored.applied_lsn, stored.definition) is distinct from (excluded.applied_lsn, excluded.definition);
end
$move_watermark$
{% endmacro %}
