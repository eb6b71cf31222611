{# A fact that adds up signed rows by dimension: the body of a model, with its configuration.

   dimensions  {column: type}, the key of the fact.
   additive    {column: {part: live | archived, sum: source column (default: count rows)}}. A count
               is bigint. A sum is numeric: any other type would round it.
   derived     {column: SQL expression of the additive columns}.
   deltas      a relation of signed_deltas to read. ref('int_service_deltas') leaves out the rows
               that the historical seed leaves out, so a fact on it starts from that seed. Without
               it the fact has deltas of its own and starts where the change log does.

   The changes of the batch that cannot be counted are put into rejected_changes (list_rejections).

   Every batch is added to the table, a rebuild too: baseline + deltas - what the table holds. So
   readers see the old totals or the new ones, and any cut into batches gives the same. #}
{% macro additive_fact(dimensions, additive, derived={}, deltas=none) %}
{%- set sums = additive.values() | map(attribute='sum') | select | unique | list -%}
{%- for column, spec in additive.items() if 'type' in spec -%}
    {{ exceptions.raise_compiler_error(
        column ~ ' has a type: a count is bigint and a sum numeric, remove it.'
    ) }}
{%- endfor -%}
{{- config(
    materialized='incremental',
    incremental_strategy='additive',
    unique_key=dimensions.keys() | list,
    on_schema_change='fail',
    full_refresh=false,
    pre_hook=['{{ lock_model() }}', '{{ bound_batch() }}'],
    post_hook=[
        '{{ list_rejections() }}', '{{ move_watermark() }}', '{{ leave_room_for_updates() }}'
    ],
    meta={
        'additive': additive.keys() | list,
        'derived': derived,
        'seeded': deltas is not none,
        'judged_by': dimensions if deltas is none else service_dimensions(),
        'sums': sums,
    },
) -}}
{%- set keys = dimensions.keys() | join(', ') -%}
-- depends_on: {{ ref('rejected_changes') }}, which list_rejections fills
with deltas as materialized (
    select
        part,
        action,
        sign,
        left_out,
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
    where action = 'T' and rejected_reason is null
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
    where {{ is_rebuild() }} or {{ is_redefined() }} or exists (select from truncates)
    {%- endif %}
),

totals as (
    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        sum({{ column }})::{{ 'numeric' if spec.sum else 'bigint' }} as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from contributions
    group by {{ keys }}
    -- A group of the table stays: its derived columns may have to be put right.
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
where {{ note_uncounted('deltas') }}
{% endmacro %}

{# SQL text, always true: tell move_watermark and list_rejections of the newest change that could
   not be counted, and move_watermark how many rows more belong to no group. #}
{% macro note_uncounted(deltas) -%}
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
