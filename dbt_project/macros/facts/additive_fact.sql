{# A fact that adds up signed rows by dimension: the whole body of a model, with its configuration.

   dimensions  {column: type}, the key of the fact.
   additive    {column: {part: live | archived, sum: source column (default: count rows)}}. A count
               is bigint. A sum is numeric: any other type would round it.
   derived     {column: SQL expression of the additive columns}.
   deltas      a relation of compute_deltas to read. With ref('int_service_deltas') the fact starts
               from the baseline, because both leave out the same rows. Without it the fact has
               deltas of its own and starts where the change log does.

   Every batch is added to the table, a rebuild too: baseline + deltas - what the table holds. So
   readers see the old totals or the new ones, and any cut into batches gives the same. #}
{% macro additive_fact(dimensions, additive, derived={}, deltas=none) %}
{%- set sums = additive.values() | map(attribute='sum') | select | unique | list -%}
{%- for column, spec in additive.items() if 'type' in spec -%}
    {{ exceptions.raise_compiler_error(
        column ~ ' has a type: a count is bigint and a sum numeric, remove it.'
    ) }}
{%- endfor -%}
{#- Lock, bounds, merge and watermark share one transaction, each a statement of its own: what
    follows the lock sees what it waited for. A full refresh is a batch like any other, so the table
    is never swapped and readers never find it missing. -#}
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
        'judged_by': dimensions if deltas is none else get_service_dimensions(),
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
            {{ compute_deltas(ref('stg_changes'), ref('stg_truncates'), dimensions, sums) }}
        ) as signed
        {%- else %} {{ deltas }}
        {%- endif %}
),

contributions as (
    {{ collect_contributions(keys, additive, is_seeded=deltas is not none) }}
),

totals as (
    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        sum({{ column }})::{{ 'numeric' if spec.sum else 'bigint' }} as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from contributions
    group by {{ keys }}
    -- A group of the table stays: its derived columns may have to be corrected.
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
where {{ record_uncounted('deltas') }}
{% endmacro %}
