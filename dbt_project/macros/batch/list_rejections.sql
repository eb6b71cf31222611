{# Put the changes of this batch that could not be counted into rejected_changes, in the transaction
   that counts the others. So the list is complete, whichever models are built.

   Only a batch that has such a change reads the change log a second time, change by change: what is
   inside `if` is not even planned otherwise. This comes before move_watermark, which notices a
   prune of what was read here.

   A rebuild lists everything anew, the baseline's rows too. #}
{% macro list_rejections() %}
{%- if execute and model.config.meta.judged_by -%}
{%- set listed = ref('rejected_changes') -%}
{%- set relation = quote_literal(listed.include(database=false) | string) -%}
do $list_rejections$
begin
    if {{ is_rebuild() }} and to_regclass({{ relation }}) is not null then
        -- Of every slot: a fact belongs to one, and may have been moved to another.
        delete from {{ listed }} where fact = {{ quote_literal(get_model_key()) }};
        {%- if model.config.meta.seeded %}
        {{ list_baseline_rejections(listed) }}
        {%- endif %}
    end if;

    if {{ get_batch_setting('rejected_lsn') }} is not null then
        if to_regclass({{ relation }}) is null then
            raise exception 'changes for % cannot be counted, and the table that lists them is not there', {{ quote_literal(get_model_key()) }}
                using hint = 'Run dbt build, or dbt run --select rejected_changes and then this again.';
        end if;
        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        with changes as (
            {{ compute_deltas(
                '(' ~ read_changes() ~ ')',
                '(' ~ read_truncates() ~ ')',
                model.config.meta.judged_by,
                model.config.meta.sums,
                each_change=true
            ) }}
        )

        select
            {{ quote_literal(get_model_key()) }},
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
