{# A fact that adds up signed rows by dimension: the body of a model, with its configuration.

   dimensions  {column: type}, the key of the fact.
   additive    {column: {part: live | archived, sum: source column (default: count rows),
               type: SQL type (default bigint)}}.
   derived     {column: SQL expression of the additive columns}.
   deltas      a relation of signed_deltas to read. ref('int_service_deltas') leaves out the rows
               that the historical seed leaves out, so a fact on it starts from that seed. Without
               it the fact has deltas of its own and starts where the change log does.

   Every batch is added to the table, a rebuild too: baseline + deltas - what the table holds. So
   readers see the old totals or the new ones, and any cut into batches gives the same. #}
{% macro additive_fact(dimensions, additive, derived={}, deltas=none) %}
{{- config(
    unique_key=dimensions.keys() | list,
    incremental_strategy='additive',
    post_hook='{{ leave_room_for_updates() }}',
    meta={
        'additive': additive.keys() | list,
        'derived': derived,
        'seeded': deltas is not none,
    },
) -}}
{%- set keys = dimensions.keys() | join(', ') -%}
{%- set sums = additive.values() | map(attribute='sum') | select | unique | list -%}
with deltas as materialized (
    select
        part,
        sign,
        change_count,
        last_lsn,
        rejected_reason,
        {{ keys }}{{ ',' if sums }}
        {{ sums | join(', ') }}
    from
        {%- if deltas is none %} (
            {{ signed_deltas(ref('stg_changes'), ref('stg_truncates'), dimensions, sums) }}
        ) as signed
        {%- else %} {{ deltas }}
        {%- endif %}
),

-- A TRUNCATE cancels what came before it, here (signed_deltas) and in the table.
truncates as (
    select distinct part
    from deltas
    where sign is null and rejected_reason is null
),

{%- if deltas is not none %}

baseline as (
    select
        {{ keys }},
        {{ part_of('source_table') }} as part,
        row_count
    from {{ source('cdc', 'historical_counts') }}
    where {{ is_rebuild() }} and slot_name = '{{ slot_name() }}'
),
{%- endif %}

contributions as (
    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when deltas.part = '{{ spec.part }}'
                then deltas.sign * deltas.change_count{{ ' * deltas.' ~ spec.sum if spec.sum }}
            else 0
        end as {{ column }},
        {%- endfor %}
        false as is_stored
    from deltas
    where deltas.sign is not null
    {%- if deltas is not none %}

    union all

    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when baseline.part = '{{ spec.part }}' then baseline.row_count
            else 0
        end as {{ column }},
        {%- endfor %}
        false as is_stored
    from baseline
    where part not in (select part from truncates)
    {%- endif %}
    {%- if is_incremental() %}

    union all

    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when
                {{ is_rebuild() }}
                or exists (select from truncates where part = '{{ spec.part }}')
                then -{{ column }}
            else 0
        end as {{ column }},
        {%- endfor %}
        true as is_stored
    from {{ this }}
    where {{ is_rebuild() }} or exists (select from truncates)
    {%- endif %}
),

totals as (
    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        sum({{ column }})::{{ spec.type or 'bigint' }} as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from contributions
    group by {{ keys }}
    -- A group of the table stays in a rebuild: its derived columns may have to be put right.
    having
        {%- for column in additive %}
        sum({{ column }}) <> 0 or
        {%- endfor %}
        bool_or(is_stored)
)

select
    -- The same group has the same id, however often the fact is rebuilt.
    md5(row({{ keys }})::text)::uuid as id,
    {{ keys }},
    {%- for column, expression in derived.items() %}
    {{ expression }} as {{ column }},
    {%- endfor %}
    {{ additive.keys() | join(', ') }}
from totals
where {{ note_rejections('deltas') }}
{% endmacro %}

{# SQL text, always true: tell move_watermark the newest change that could not be counted. #}
{% macro note_rejections(deltas) -%}
    (
        select set_config('waltally.rejected_lsn', coalesce(max(last_lsn)::text, ''), true)
        from {{ deltas }}
        where rejected_reason is not null
    ) is not null
{%- endmacro %}
