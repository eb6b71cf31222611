{# Put the changes of this batch that could not be counted into rejected_changes, in the transaction
   that counts the others. So the list is complete whatever is built or not, and holds up nothing.

   The change log is read a second time, change by change, only if the batch has such a change: what
   is inside `if` is not even planned otherwise. Before move_watermark, which notices a prune.
   A rebuild lists anew, the seed's rows too. #}
{% macro list_rejections() %}
{%- if execute and model.config.meta.judged_by -%}
{%- set listed = ref('rejected_changes') -%}
{%- set relation = literal(listed.include(database=false) | string) -%}
do $list_rejections$
begin
    if {{ is_rebuild() }} and to_regclass({{ relation }}) is not null then
        -- Whatever slot they came through: a fact belongs to one, and may have been moved.
        delete from {{ listed }} where fact = {{ literal(model_key()) }};
        {%- if model.config.meta.seeded %}

        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        select
            {{ literal(model_key()) }},
            seed.slot_name,
            seed.snapshot_lsn,
            -row_number() over (order by rejected.source_table, rejected.reason),
            0,
            seed.seeded_at,
            rejected.source_table,
            'baseline',
            rejected.reason,
            jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
        from {{ source('cdc', 'historical_rejections') }} as rejected
        inner join {{ source('cdc', 'historical_snapshot') }} as seed
            on seed.slot_name = rejected.slot_name
        where
            seed.slot_name = '{{ slot_name() }}'
            and {{ part_of('rejected.source_table') }} is not null;
        {%- endif %}
    end if;

    if {{ batch_setting('rejected_lsn') }} is not null then
        if to_regclass({{ relation }}) is null then
            raise exception 'changes for % cannot be counted, and the table that lists them is not there', {{ literal(model_key()) }}
                using hint = 'Run dbt build, or dbt run --select rejected_changes and then this again.';
        end if;
        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        with changes as (
            {{ signed_deltas(
                '(' ~ staged_changes() ~ ')',
                '(' ~ staged_truncates() ~ ')',
                model.config.meta.judged_by,
                model.config.meta.sums,
                each_change=true
            ) }}
        )

        select
            {{ literal(model_key()) }},
            slot_name,
            commit_lsn,
            ordinal,
            xid,
            committed_at,
            source_table,
            action,
            rejected_reason,
            payload
        from changes
        where rejected_reason is not null;
    end if;
end
$list_rejections$
{%- endif -%}
{% endmacro %}
