{# The delta rules: changes as signed rows of a fact.

   One row for each image that counts, with its number of changes and its sign: 1 for the new
   image, -1 for the old one. Its dimensions are d0, d1, ..., and what it adds to the sum of a
   column is s0, s1, ..., in the order of the declaration; the fact's own names could be those of
   the columns here. is_measured_0, ... say of measures with conditions of their own whether these hold.
   Three kinds of row have no sign: the last TRUNCATE of each part; changes of which something cannot be counted,
   with rejected_reason; images that belong to no group, where left_out says how many rows more or
   fewer there are. What a TRUNCATE took away has no row. is_ignored: the row was deleted from a
   table whose deletes the fact ignores, so it stays counted.

   A column that an old image lacks is never guessed: it may have changed too. A new image that cannot be counted
   adds nothing, so it takes nothing away once it is the old one: of a row that is corrected only the new image counts,
   and of one that becomes bad only the old one.

   changes, table_nos, places  as in select_values.
   slot                        the slot's name, as SQL. #}
{% macro compute_deltas(declared, changes, table_nos, places, slot) %}
{%- set values = waltally.list_values(declared) -%}
{%- set sums = values | selectattr('kind', 'equalto', 'sum') | list -%}
{%- set old_values = waltally.number_names('old_v', values | length) -%}
{%- set new_values = waltally.number_names('new_v', values | length) -%}
{%- set kept = 'part, action, commit_lsn, ordinal' -%}
{%- set ignoring = declared.tables | selectattr('deletes', 'equalto', 'ignore') | map(attribute='name') | list -%}
{%- set counts = 'case side.sign when 1 then judged.has_new else judged.has_old end' -%}
with valued as (
    {{ waltally.select_values(declared, changes, table_nos, places) }}
),

moved as (
    select
        {{ kept }},
        is_cancelled,
        problem,
        {%- if values %}
        {{ old_values }},
        {{ new_values }},
        {%- endif %}
        {{ "coalesce(part in (" ~ waltally.quote_literals(ignoring) ~ ") and action = 'D', false)" if ignoring else 'false' }} as is_ignored,
        sum(change_count)::bigint as change_count,
        max(last_lsn) as last_lsn
    from valued
    where (action = 'U'{% if values %} and ({{ old_values }}) = ({{ new_values }}){% endif %}) is not true
    group by
        {{ kept }},
        is_cancelled,
        problem{% if values %},
        {{ old_values }},
        {{ new_values }}{% endif %}
),

imaged as (
    select
        *,
        {%- for image, actions in [('old', "('U', 'D')"), ('new', "('I', 'U')")] %}
        {%- set meets %}
        action in {{ actions }}
            {%- for value in values if value.kind == 'condition' %}
            and {{ image }}_v{{ values.index(value) }} is distinct from 'false'
            {%- endfor %}
        {%- endset %}
        coalesce({{ meets }}, false) as meets_{{ image }},
        coalesce(
            {{- meets }}
            {%- for value in values if value.nulls == 'leave_out' %}
            and {{ image }}_v{{ values.index(value) }} is distinct from '\null'
            {%- endfor %},
            false
        ) as has_{{ image }}{{ ',' if not loop.last }}
        {%- endfor %}
    from moved
),

judged as (
    select
        *,
        {{ waltally.explain_rejection(declared, values) }} as unknown_reason,
        {{ waltally.explain_bad_image(declared, values, 'new') }} as new_reason,
        {{ waltally.explain_bad_image(declared, values, 'old') }} as old_reason
    from imaged
    offset 0
),

-- A join with constants. A lateral join over wide rows would be memoized, with a hash for each row.
images as (
    select
        {{ waltally.quote_names(['part', 'action', 'commit_lsn', 'ordinal', 'is_ignored', 'change_count', 'last_lsn'], 'judged') }},
        {%- for value in values if value.kind != 'condition' %}
        case
            when side.sign = 1 and judged.has_new then {{ waltally.read_value_text('judged.new_v' ~ values.index(value)) }}
            when side.sign = -1 and judged.has_old then {{ waltally.read_value_text('judged.old_v' ~ values.index(value)) }}
        end as v{{ values.index(value) }},
        {%- endfor %}
        case when side.sign is null then coalesce(judged.unknown_reason, judged.new_reason) end as rejected_reason,
        case when {{ counts }} then side.sign end as sign,
        case
            when {{ counts }} or judged.is_ignored then 0
            else coalesce(side.sign * judged.change_count, 0)
        end as left_out
    from judged
    cross join (values (1), (-1), (null)) as side (sign)
    where
        case
            when side.sign is null
                then coalesce(judged.unknown_reason, judged.new_reason) is not null
                or judged.action = 'T' and not judged.is_cancelled
            when judged.unknown_reason is not null or judged.is_cancelled then false
            when side.sign = 1 then judged.meets_new and judged.new_reason is null
            else judged.meets_old and judged.old_reason is null and (judged.has_old or not judged.is_ignored)
        end
    -- Without this a filter on a dimension, with its cast, could run before the filter above.
    offset 0
)

select
    {{ kept }},
    rejected_reason,
    is_ignored,
    change_count,
    last_lsn,
    {%- for dimension in declared.dimensions %}
    {%- if dimension.kind == 'slot' %}
    {{ slot }}::text as d{{ loop.index0 }},
    {%- endif %}
    {%- set output = loop.index0 %}
    {%- for value in values if value.name == dimension.name %}
    ({{ waltally.label_value(value, 'v' ~ values.index(value)) }})::{{ dimension.type }} as d{{ output }},
    {%- endfor %}
    {%- endfor %}
    {%- for value in sums %}
    coalesce(v{{ values.index(value) }}, '0')::numeric as s{{ loop.index0 }},
    {%- endfor %}
    {%- for measure in declared.measures if measure.where %}
    (true{{ waltally.is_measured(measure, values, '') }}) is true as is_measured_{{ declared.measures.index(measure) }},
    {%- endfor %}
    sign,
    left_out
from images
{% endmacro %}
