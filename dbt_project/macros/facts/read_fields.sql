{# The changes of the batch that may matter to a fact, each with the values of its images: old_c0,
   new_c0, old_c1, ... in the order of list_columns, as read_image_value gives them, and with what
   list_field_names says of it. is_cancelled: a TRUNCATE of the table comes later. `kept` are
   columns of the change log to keep. #}
{% macro read_fields(declared, kept) %}
{%- set columns = waltally.list_columns(declared) -%}
{%- set kind = waltally.list_field_names() -%}
with changes as (
    {{ waltally.read_changes(declared.tables) }}
),

truncates as (
    {{ waltally.read_truncates(declared.tables) }}
),

plain as (
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
        {%- for column in columns %}
        {{ waltally.find_declared_string('changes.old_image', declared, column) }} as old_c{{ loop.index0 }},
        {{ waltally.find_declared_string('changes.new_image', declared, column) }} as new_c{{ loop.index0 }},
        {%- endfor %}
        (
            (changes.commit_lsn, changes.ordinal) < (truncates.commit_lsn, truncates.ordinal)
        ) is true as is_cancelled
    from changes
    left join truncates on changes.part = truncates.part
    where
        -- Transaction bounds and messages hold no row.
        coalesce(changes.action not in ('B', 'C', 'M'), true)
        and (changes.part is not null or changes.source_table is null)
        {%- for table in declared.tables if table.deletes == 'ignore' %}
        -- A purge removes storage, not history.
        and (changes.part = {{ waltally.quote_literal(table.name) }} and changes.action = 'D') is not true
        {%- endfor %}
    -- Without this the planner repeats each search wherever its result is used.
    offset 0
),

found as (
    select
        {{ (kept + kind) | join(', ') }},
        {%- for image in ['old', 'new'] %}
        {%- for column in columns %}
        {%- set value = image ~ '_c' ~ loop.index0 %}
        {{ waltally.read_image_value(image ~ '_image', declared, column, value) }} as {{ value }},
        {%- endfor %}
        {%- endfor %}
        last_lsn
    from plain
    offset 0
)

select
    {{ (kept + kind) | join(', ') }},
    {%- for column in columns %}
    old_c{{ loop.index0 }},
    -- An unchanged value that is stored out of line is absent from the new image.
    coalesce(new_c{{ loop.index0 }}, old_c{{ loop.index0 }}) as new_c{{ loop.index0 }},
    {%- endfor %}
    last_lsn
from found
{% endmacro %}
