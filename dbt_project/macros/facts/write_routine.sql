{# SQL: the routine that applies a batch to the model; cdc.apply calls it.

   step  begin: as rebuild, but the table has to be empty. rebuild: start from the baseline. add: add changes.
         add plain: the same where no row was deleted and no table truncated.
         refill: the same during a rebuild, which has left truncated tables out. merge: add groups that were
         computed elsewhere. list: list what could not be counted.

   Where `is_watched`, a roll-up is made of it, and the outcome tells which rows changed. `deltas` is the function that
   write_deltas makes, of a fact.

   It runs with the rights of its owner, and with settings of its own. Its parameters are called $1, $2, ...,
   because a column of the fact may have any name. #}
{% macro write_routine(routine, declared, derived, deltas) %}
{%- set change_type = waltally.get_staging_schema() ~ '.change' -%}
{%- set listed = waltally.name_table(ref('waltally', 'rejected_changes')) -%}
{%- set is_fact = declared.kind == 'fact' -%}
create or replace function {{ routine }}(
    step text,
    slot text,
    changes {{ change_type }}[],
    table_nos integer[],
    places integer[],
    truncated text[],
    is_watched boolean
) returns {{ waltally.get_staging_schema() }}.outcome
language plpgsql security definer
{{ waltally.pin_routine() }}
as $routine$
#variable_conflict use_column
declare
    result {{ waltally.get_staging_schema() }}.outcome;
    {%- if not is_fact %}
    change record;
    rejected_reason text;
    left_out bigint := 0;
    is_truncated boolean := false;
    has_hard boolean;
    {%- for column in declared.dimensions %}
    kept_{{ loop.index0 }} {{ column.type }}[];
    {%- if column.name in declared.key %}
    gone_{{ loop.index0 }} {{ column.type }}[];
    touched_{{ loop.index0 }} {{ column.type }}[];
    {%- endif %}
    {%- endfor %}
    {%- endif %}
begin
    lock table {{ waltally.name_table() }} in row exclusive mode nowait;
    if $1 in ('begin', 'rebuild') then
        if $1 = 'begin' and exists (
            select from {{ waltally.name_table() }} where true{{ waltally.write_slot_filter(declared, '$2') }}
        ) then
            -- Without a watermark nothing says where these counts come from: another slot, or a baseline
            -- that is gone. A rebuild would replace them by what this log alone holds.
            raise exception 'it holds counts, and nothing says that they come from the slot %', $2
                using hint = '`spark-submit spark/seed.py --model {{ model.name }}`; where no slot has a baseline, '
                || '`dbt build --full-refresh` keeps what this log holds and nothing else';
        end if;
        result.is_replaced := {{ waltally.adapt_table(declared, derived) }};
        {{ waltally.list_baseline_rejections(declared, listed) }}
        {%- if not is_fact %}
        delete from {{ waltally.name_table() }} where true{{ waltally.write_slot_filter(declared, '$2') }};
        insert into {{ waltally.name_table() }} ({{ waltally.quote_names(declared.dimensions | map(attribute='name')) }})
        select
            {%- for column in declared.dimensions %}
            groups.dimensions[{{ loop.index }}]::{{ column.type }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ waltally.get_staging_schema() }}.baseline_group as groups
        where
            groups.slot_name = $2
            and groups.fact_name = {{ waltally.quote_literal(model.name) }}
            and {{ waltally.quote_literal(declared.tables[0].schema ~ '.' ~ declared.tables[0].table) }} <> all (coalesce($6, '{}'));
        {%- endif %}
    {%- if is_fact %}
    elsif $1 = 'list' then
        {{ waltally.insert_rejection(declared, listed, 'deltas.part', 'deltas.action', 'deltas.rejected_reason') }}
        from {{ deltas }}($2, $3, $4, $5) as deltas
        inner join {{ waltally.get_staging_schema() }}.change_log as log
            on log.slot_name = $2 and log.commit_lsn = deltas.commit_lsn and log.ordinal = deltas.ordinal
        where deltas.rejected_reason is not null;
    elsif $1 = 'add plain' then
        {{ waltally.apply_changes(declared, derived, deltas, is_plain=true) }}
    elsif $1 in ('add', 'refill') then
        {{ waltally.apply_changes(declared, derived, deltas, is_plain=false) }}
    {%- else %}
    elsif $1 <> 'list' then
        {{ waltally.apply_rows(declared, listed) }}
    {%- endif %}
    end if;
    {%- if is_fact %}
    if $1 in ('begin', 'rebuild', 'merge') then
        {{ waltally.add_groups(declared, derived) }}
    end if;
    {%- endif %}
    return result;
{%- if not is_fact %}
exception
    when unique_violation then
        raise exception 'two rows of {{ model.name }} have the same key: %', sqlerrm
            using hint = 'Declare a key that no two rows share at any moment, run loader setup and spark-submit spark/seed.py --model {{ model.name }}.';
{%- endif %}
end
$routine$
{% endmacro %}
