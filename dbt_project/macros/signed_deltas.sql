{# The delta rules: raw changes to signed rows, for any dimensions of the counted tables.

   dimensions  {column: type}; an image with a null in one of them belongs to no group.
   sums        numeric columns that additive columns add up instead of counting rows.
   moving      columns whose old value must be carried by the replica identity. Any other dimension
               is taken from the new image of an update where the old one lacks it.

   One row for each image that counts, with its sign: the new one +1, the old one -1. One row
   without a sign for a TRUNCATE, and for a change that cannot be counted, with rejected_reason. #}
{% macro signed_deltas(changes, dimensions, sums=[], moving=['notification_status']) %}
{%- set columns = dimensions.keys() | list + sums -%}
{%- set carried = moving + sums -%}
with fields as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        source_table,
        part,
        action,
        payload,
        is_json,
        action in ('U', 'D') and old_image is null as lacks_old,
        {%- for column in columns %}
        {{ image_value('old_image', column) }} as old_{{ column }},
        {{ image_value('new_image', column) }} as new_{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ changes }}
    where
        -- Transaction bounds and messages hold no row.
        coalesce(action not in ('B', 'C', 'M'), true)
        and (part is not null or source_table is null)
        -- A purge of history removes storage, not history.
        and (part = 'archived' and action = 'D') is not true
    -- Else the planner repeats each path query wherever its result is used.
    offset 0
),

resolved as (
    select
        slot_name,
        commit_lsn,
        ordinal,
        xid,
        committed_at,
        source_table,
        part,
        action,
        payload,
        is_json,
        lacks_old,
        {%- for column in columns %}
        {% if column in carried -%}
        old_{{ column }},
        {% else -%}
        coalesce(old_{{ column }}, new_{{ column }}) as old_{{ column }},
        {% endif -%}
        -- An unchanged value that is stored out of line is absent from the new image.
        coalesce(new_{{ column }}, old_{{ column }}) as new_{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from fields
),

moved as (
    select
        *,
        {%- for image, actions in [('old', "('U', 'D')"), ('new', "('I', 'U')")] %}
        coalesce(
            action in {{ actions }}
            and ('null' in ({{ prefixed(image, dimensions) }})) is not true,
            false
        ) as has_{{ image }}{{ ',' if not loop.last }}
        {%- endfor %}
    from resolved
    where
        (
            action = 'U'
            and ({{ prefixed('old', columns) }}) = ({{ prefixed('new', columns) }})
        ) is not true
),

judged as (
    select
        *,
        case
            when not is_json then 'the payload is not valid JSON'
            when action is null or action not in ('I', 'U', 'D', 'T') then 'the action is not known'
            when source_table is null then 'the change names no table'
            when lacks_old then 'the replica identity carries no old row'
            {%- for image, says in [
                ('new', 'the row has no column '),
                ('old', 'the replica identity does not carry the old '),
            ] %}
            when has_{{ image }} and num_nulls({{ prefixed(image, columns) }}) > 0
                then '{{ says }}' || concat_ws(
                    ', ',
                    {%- for column in columns %}
                    case when {{ image }}_{{ column }} is null then '{{ column }}' end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )
            {%- endfor %}
            {%- for image in ['new', 'old'] %}
            {%- for column, type in dimensions.items() if type == 'uuid' %}
            when has_{{ image }} and {{ value_text(image ~ '_' ~ column) }}
                !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then 'the value of {{ column }} is not a uuid'
            {%- endfor %}
            -- An index entry of the fact holds all of them in 2,700 bytes.
            {%- for column, type in dimensions.items() if type == 'text' %}
            when has_{{ image }} and octet_length({{ value_text(image ~ '_' ~ column) }}) > 1000
                then 'the value of {{ column }} is longer than 1000 bytes'
            {%- endfor %}
            {%- for column in sums %}
            when has_{{ image }} and jsonb_typeof({{ image }}_{{ column }}) not in ('number', 'null')
                then 'the value of {{ column }} is not a number'
            {%- endfor %}
            {%- endfor %}
        end as rejected_reason
    from moved
    offset 0
),

-- A join with constants: a lateral join over the documents would be memoized, hash by hash.
images as (
    select
        judged.slot_name,
        judged.commit_lsn,
        judged.ordinal,
        judged.xid,
        judged.committed_at,
        judged.source_table,
        judged.part,
        judged.action,
        judged.payload,
        judged.rejected_reason,
        side.sign,
        {%- for column in columns %}
        case side.sign
            when 1 then {{ value_text('judged.new_' ~ column) }}
            when -1 then {{ value_text('judged.old_' ~ column) }}
        end as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from judged
    cross join (values (1), (-1), (null)) as side (sign)
    where
        case side.sign
            when 1 then judged.has_new and judged.rejected_reason is null
            when -1 then judged.has_old and judged.rejected_reason is null
            else judged.action = 'T' or judged.rejected_reason is not null
        end
    -- Else a filter on a dimension could be evaluated, with its cast, before this one.
    offset 0
)

select
    slot_name,
    commit_lsn,
    ordinal,
    xid,
    committed_at,
    source_table,
    part,
    action,
    payload,
    rejected_reason,
    sign,
    {%- for column, type in dimensions.items() %}
    {{ column }}::{{ type }} as {{ column }}{{ ',' if not loop.last or sums }}
    {%- endfor %}
    {%- for column in sums %}
    coalesce({{ column }}, '0')::numeric as {{ column }}{{ ',' if not loop.last }}
    {%- endfor %}
from images
{% endmacro %}

{# The columns of one image: old_a, old_b. #}
{% macro prefixed(image, columns) -%}
    {%- for column in columns %}{{ image }}_{{ column }}{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}
