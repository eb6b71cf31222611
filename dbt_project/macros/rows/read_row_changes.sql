{# The changes of a batch to a table's rows, for apply_rows: the last TRUNCATE, and each change
   after it with has_old and has_new, which say whether the image names a row; the old key and the
   new values as old_0, new_0, ..., typed; and has_0, ..., which say whether the new image holds
   them. An unchanged value that is stored out of line is absent. is_unknown: nothing of the change can be applied.
   A row that the model cannot hold is gone from it, and a key that it cannot hold was never in it. #}
{% macro read_row_changes(declared, changes, table_nos, places, slot) %}
{%- set values = waltally.list_values(declared) -%}
with valued as (
    {{ waltally.select_values(declared, changes, table_nos, places) }}
),

imaged as (
    select
        *,
        {%- for image, actions in [('old', "('U', 'D')"), ('new', "('I', 'U')")] %}
        coalesce(
            action in {{ actions }}
            {%- for value in values if value.name in declared.key %}
            and {{ image }}_v{{ values.index(value) }} is distinct from '\null'
            {%- endfor %},
            false
        ) as has_{{ image }}{{ ',' if not loop.last }}
        {%- endfor %}
    from valued
),

judged as (
    select
        *,
        {{ waltally.explain_row_rejection(declared, values) }} as unknown_reason,
        {{ waltally.explain_bad_row(declared, values) }} as new_reason,
        {{ waltally.explain_bad_old_key(declared, values) }} as old_reason
    from imaged
    offset 0
)

select
    part,
    action,
    commit_lsn,
    ordinal,
    unknown_reason is not null as is_unknown,
    coalesce(unknown_reason, new_reason) as rejected_reason,
    has_old and unknown_reason is null and old_reason is null and not is_cancelled as has_old,
    has_new and unknown_reason is null and new_reason is null as has_new,
    {%- for column in declared.dimensions %}
    {%- set place = loop.index0 %}
    {%- if column.kind == 'slot' %}
    {{ slot }}::text as old_{{ place }},
    {{ slot }}::text as new_{{ place }},
    true as has_{{ place }},
    {%- else %}
    {%- for value in values if value.name == column.name %}
    {%- for image in ['old', 'new'] if image == 'new' or value.name in declared.key %}
    case
        when has_{{ image }} and unknown_reason is null and {{ image }}_reason is null
            then {{ waltally.read_value_text(image ~ '_v' ~ values.index(value)) }}::{{ value.type }}
    end as {{ image }}_{{ place }},
    {%- endfor %}
    new_v{{ values.index(value) }} is not null as has_{{ place }},
    {%- endfor %}
    {%- endif %}
    {%- endfor %}
    case
        when unknown_reason is not null then 0
        else
            (action in ('I', 'U') and not has_new)::integer
            - (action in ('U', 'D') and not has_old)::integer
    end as left_out
from judged
where coalesce(unknown_reason, new_reason) is not null or not is_cancelled
{% endmacro %}
