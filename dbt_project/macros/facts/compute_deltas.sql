{# The delta rules: raw changes to signed rows, for any dimensions of the counted tables.

   changes      a relation like stg_changes.
   truncates    a relation like stg_truncates.
   dimensions   {column: type}. An image with a null in one of them belongs to no group.
   sums         numeric columns that additive columns add up instead of counting rows.
   each_change  judge change by change, and keep position and payload. Otherwise changes that look
                alike are judged together, which is most of what makes a batch cheap.

   One row for each image that counts, with its number of changes and its sign: 1 for the new image,
   -1 for the old one. Three kinds of row have no sign: the last TRUNCATE of each part; changes that
   cannot be counted, with rejected_reason; images that belong to no group, where left_out says how
   many rows more or fewer there are. What a TRUNCATE took away has no row.

   A column that an old image lacks is never guessed: it may have changed too. #}
{% macro compute_deltas(
    changes, truncates, dimensions, sums=[], each_change=false
) %}
{%- set columns = dimensions.keys() | list + sums -%}
{%- set kept = [] -%}
{%- if each_change -%}
    {%- set kept = ['slot_name', 'commit_lsn', 'ordinal', 'xid', 'committed_at', 'payload'] -%}
{%- endif -%}
{%- set counts = 'case side.sign when 1 then judged.has_new else judged.has_old end' -%}
{%- set kind = [
    'part', 'action', 'source_table', 'is_json', 'is_undecodable', 'lacks_old', 'is_cancelled'
] -%}
with plain as (
    select
        {%- for column in kept %}
        changes.{{ column }},
        {%- endfor %}
        changes.part,
        changes.action,
        changes.source_table,
        changes.is_json,
        changes.is_undecodable,
        changes.old_image,
        changes.new_image,
        changes.commit_lsn as last_lsn,
        changes.action in ('U', 'D') and changes.old_image is null as lacks_old,
        (
            (changes.commit_lsn, changes.ordinal) < (truncates.commit_lsn, truncates.ordinal)
        ) is true as is_cancelled,
        {%- for column in columns %}
        {{ find_plain_string('changes.old_image', column) }} as old_{{ column }},
        {{ find_plain_string('changes.new_image', column) }} as new_{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ changes }} as changes
    left join {{ truncates }} as truncates on changes.part = truncates.part
    where
        -- Transaction bounds and messages hold no row.
        coalesce(changes.action not in ('B', 'C', 'M'), true)
        and (changes.part is not null or changes.source_table is null)
        -- A purge of history removes storage, not history.
        and (changes.part = 'archived' and changes.action = 'D') is not true
    -- Without this the planner repeats each search wherever its result is used.
    offset 0
),

fields as (
    select
        {{ (kept + kind) | join(', ') }},
        last_lsn,
        {%- for image in ['old', 'new'] %}
        {%- set last_image = loop.last %}
        {%- for column in columns %}
        {%- set value = image ~ '_' ~ column %}
        {{ read_image_value(image ~ '_image', column, value) }} as {{ value }}
        {{- ',' if not (loop.last and last_image) }}
        {%- endfor %}
        {%- endfor %}
    from plain
    offset 0
),

resolved as (
    select
        {{ (kept + kind) | join(', ') }},
        last_lsn,
        {%- for column in columns %}
        old_{{ column }},
        -- An unchanged value that is stored out of line is absent from the new image.
        coalesce(new_{{ column }}, old_{{ column }}) as new_{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from fields
),

moved as (
    select
        {{ (kept + kind) | join(', ') }},
        {{ prefix_columns('old', columns) }},
        {{ prefix_columns('new', columns) }},
        {%- if each_change %}
        1::bigint as change_count,
        last_lsn
        {%- else %}
        count(*) as change_count,
        max(last_lsn) as last_lsn
        {%- endif %}
    from resolved
    where
        (
            action = 'U'
            and ({{ prefix_columns('old', columns) }}) = ({{ prefix_columns('new', columns) }})
        ) is not true
    {%- if not each_change %}
    group by {{ kind | join(', ') }}, {{ prefix_columns('old', columns) }}, {{ prefix_columns('new', columns) }}
    {%- endif %}
),

imaged as (
    select
        *,
        {%- for image, actions in [('old', "('U', 'D')"), ('new', "('I', 'U')")] %}
        coalesce(
            action in {{ actions }}
            {%- for column in dimensions %}
            and ({{ is_json_null(image ~ '_' ~ column) }}) is not true
            {%- endfor %},
            false
        ) as has_{{ image }}{{ ',' if not loop.last }}
        {%- endfor %}
    from moved
),

judged as (
    select
        *,
        {{ explain_rejection(dimensions, sums) }} as rejected_reason
    from imaged
    offset 0
),

-- A join with constants. A lateral join over wide rows would be memoized, at the price of a hash each.
images as (
    select
        {%- for column in kept + ['part', 'action', 'source_table', 'rejected_reason'] %}
        judged.{{ column }},
        {%- endfor %}
        judged.change_count,
        judged.last_lsn,
        case when {{ counts }} then side.sign end as sign,
        case when {{ counts }} then 0 else coalesce(side.sign * judged.change_count, 0) end as left_out,
        {%- for column in columns %}
        case
            when side.sign = 1 and judged.has_new then {{ read_value_text('judged.new_' ~ column) }}
            when side.sign = -1 and judged.has_old then {{ read_value_text('judged.old_' ~ column) }}
        end as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from judged
    cross join (values (1), (-1), (null)) as side (sign)
    where
        case
            when judged.rejected_reason is not null then side.sign is null
            when judged.is_cancelled then false
            when side.sign = 1 then judged.action in ('I', 'U')
            when side.sign = -1 then judged.action in ('U', 'D')
            else judged.action = 'T'
        end
    -- Without this a filter on a dimension, with its cast, could run before the filter above.
    offset 0
)

select
    {{ (kept + ['part', 'action', 'source_table', 'rejected_reason']) | join(', ') }},
    change_count,
    last_lsn,
    sign,
    left_out,
    {%- for column, type in dimensions.items() %}
    {{ column }}::{{ type }} as {{ column }}{{ ',' if not loop.last or sums }}
    {%- endfor %}
    {%- for column in sums %}
    coalesce({{ column }}, '0')::numeric as {{ column }}{{ ',' if not loop.last }}
    {%- endfor %}
from images
{% endmacro %}
