{# Put the changes of this batch that could not be counted into rejected_changes, in the transaction
   that counts the others. So the list is complete, whichever models are built.

   Only a batch that has such a change reads the change log a second time, change by change: what is
   inside `if` is not even planned otherwise. This comes before move_watermark, which notices a
   prune of what was read here.

   A rebuild lists everything anew, the baseline's rows too. #}
{% macro list_rejections(declared, batch) %}
{%- set listed = ref('waltally', 'rejected_changes') -%}
{%- set relation = waltally.quote_literal(listed.include(database=false) | string) -%}
do $list_rejections$
begin
    if {{ waltally.is_rebuild() }} and to_regclass({{ relation }}) is not null then
        delete from {{ listed }}
        where
            fact = {{ waltally.quote_literal(waltally.get_model_key()) }}
            {%- if declared.dimensions | selectattr('kind', 'equalto', 'slot') | list %}
            and slot_name = '{{ waltally.get_slot_name() }}'
            {%- endif %};
        {{ waltally.list_baseline_rejections(listed, declared) }}
    end if;

    if {{ waltally.get_batch_setting('rejected_lsn') }} is not null then
        if to_regclass({{ relation }}) is null then
            raise exception 'changes for % cannot be counted, and the table that lists them is not there', {{ waltally.quote_literal(waltally.get_model_key()) }}
                using hint = 'Run dbt build, or dbt run --select rejected_changes and then this again.';
        end if;
        insert into {{ listed }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at,
            source_table, action, reason, payload
        )
        {%- if declared.kind == 'current_rows' %}
        {{- waltally.list_row_rejections(batch) }}
        {%- else %}
        {{- waltally.list_change_rejections(declared) }}
        {%- endif %};
    end if;
end
$list_rejections$
{% endmacro %}
