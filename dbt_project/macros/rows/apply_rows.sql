{# A step of the routine of current rows: apply the changes as they were made. Whatever several of them do to one
   row or to its key, the result is that of the source.

   Of most rows the last change is all that counts, so these are written together. The others are hard: their key
   changes, or a change lacks a value that is stored out of line. Their changes are applied one after the other,
   as all are with a TRUNCATE or a rejected change among them. #}
{% macro apply_rows(declared, listed) %}
{%- set names = declared.dimensions | map(attribute='name') | list -%}
{%- set columns = waltally.quote_names(names) -%}
{%- set part = waltally.quote_literal(declared.tables[0].name) -%}
{%- set keys = declared.dimensions | selectattr('name', 'in', declared.key) | list -%}
{%- set changes = waltally.sort_row_changes(declared) -%}
select
    coalesce(sum(left_out) filter (where not is_hard), 0),
    bool_or(is_hard)
    {%- for column in keys %},
    array_agg(key_{{ declared.dimensions.index(column) }}) filter (where is_last and not has_new),
    array_agg(key_{{ declared.dimensions.index(column) }})
        || array_agg(old_{{ declared.dimensions.index(column) }}) filter (where is_moved)
    {%- endfor %}
    {%- for name in names %},
    array_agg(new_{{ loop.index0 }}) filter (where is_last and has_new)
    {%- endfor %}
into
    left_out, has_hard
    {%- for column in keys %}, gone_{{ declared.dimensions.index(column) }}, touched_{{ declared.dimensions.index(column) }}{% endfor %}
    {%- for name in names %}, kept_{{ loop.index0 }}{% endfor %}
from ({{ changes }}) as sorted;
if $7 then
    if cardinality(touched_{{ declared.dimensions.index(keys[0]) }}) > {{ waltally.get_staging_schema() }}.slice_size() / 10 then
        -- Then the roll-ups are filled apart, so that the other models do not wait for them.
        result.is_reset := true;
    else
        {{ waltally.tell_rows(declared, keys, 'before') }}
    end if;
end if;
delete from {{ waltally.name_table() }} as stored
using unnest({% for column in keys %}gone_{{ declared.dimensions.index(column) }}{{ ', ' if not loop.last }}{% endfor %})
    as gone ({% for column in keys %}key_{{ declared.dimensions.index(column) }}{{ ', ' if not loop.last }}{% endfor %})
where {% for column in keys %}{{ ' and ' if not loop.first }}stored.{{ waltally.quote_name(column.name) }} = gone.key_{{ declared.dimensions.index(column) }}{% endfor %};
{%- set kept = 'unnest(' ~ waltally.number_names('kept_', names | length) ~ ') as kept (' ~ waltally.number_names('new_', names | length) ~ ')' -%}
{%- set is_stored -%}
{% for column in keys %}{{ ' and ' if not loop.first }}stored.{{ waltally.quote_name(column.name) }} = kept.new_{{ declared.dimensions.index(column) }}{% endfor %}
{%- endset %}
{%- set is_old -%}
{% for column in keys %}{{ ' and ' if not loop.first }}stored.{{ waltally.quote_name(column.name) }} = change.old_{{ declared.dimensions.index(column) }}{% endfor %}
{%- endset %}
{%- if names | length > keys | length %}
update {{ waltally.name_table() }} as stored
set ({{ columns }}) = row({{ waltally.number_names('kept.new_', names | length) }})
from {{ kept }}
where
    {{ is_stored }}
    and row({{ waltally.quote_names(names, 'stored') }}) is distinct from row({{ waltally.number_names('kept.new_', names | length) }});
{%- endif %}
insert into {{ waltally.name_table() }} ({{ columns }})
select {{ waltally.number_names('kept.new_', names | length) }}
from {{ kept }}
where not exists (select from {{ waltally.name_table() }} as stored where {{ is_stored }});
for change in
    select * from ({{ changes }}) as sorted
    where has_hard and is_hard
    order by commit_lsn, ordinal
loop
    left_out := left_out + change.left_out;
    rejected_reason := change.rejected_reason;
    if not change.is_unknown then
        if change.action = 'T' then
            delete from {{ waltally.name_table() }} where true{{ waltally.write_slot_filter(declared, '$2') }};
            is_truncated := true;
            left_out := 0;
        elsif not change.has_new then
            if change.has_old then
                delete from {{ waltally.name_table() }} as stored where {{ is_old }};
            end if;
        else
            if change.has_old then
                update {{ waltally.name_table() }} as stored
                set
                    {%- for name in names %}
                    {{ waltally.quote_name(name) }} = case
                        when change.has_{{ loop.index0 }} then change.new_{{ loop.index0 }}
                        else stored.{{ waltally.quote_name(name) }}
                    end{{ ',' if not loop.last }}
                    {%- endfor %}
                where {{ is_old }};
                continue when found;
            end if;
            if {% for name in names %}change.has_{{ loop.index0 }}{{ ' and ' if not loop.last }}{% endfor %} then
                insert into {{ waltally.name_table() }} ({{ columns }})
                values ({{ waltally.number_names('change.new_', names | length) }})
                on conflict ({{ waltally.quote_names(declared.key) }}) do update
                set ({{ columns }}) = row({{ waltally.quote_names(names, 'excluded') }});
                continue;
            end if;
            -- Nothing holds the values that the change does not carry.
            rejected_reason := 'the row was not known, and an unchanged value is not in the change';
        end if;
    end if;
    if rejected_reason is not null then
        result.rejected_lsn := change.commit_lsn;
        {{ waltally.insert_rejection(declared, listed, 'change.part', 'change.action', 'rejected_reason') }}
        from {{ waltally.get_staging_schema() }}.change_log as log
        where log.slot_name = $2 and log.commit_lsn = change.commit_lsn and log.ordinal = change.ordinal;
    end if;
end loop;
result.left_out := jsonb_build_object(
    {{ part }}, jsonb_build_object('row_count', left_out, 'is_truncated', is_truncated)
);
if $7 then
    result.is_reset := result.is_reset is true or is_truncated;
    if not result.is_reset then
        {{ waltally.tell_rows(declared, keys, 'after') }}
    end if;
end if;
{% endmacro %}

{# SQL: add the rows that have a touched key to result.moved, as they are now. #}
{% macro tell_rows(declared, keys, side) %}
{%- set columns -%}
array[{% for column in declared.dimensions %}stored.{{ waltally.quote_name(column.name) }}::text{{ ', ' if not loop.last }}{% endfor %}]
{%- endset -%}
        select result.moved || array_agg(row({{ columns ~ ', null' if side == 'before' else 'null, ' ~ columns }})::{{ waltally.get_staging_schema() }}.moved_row)
        into result.moved
        from (
            select distinct {% for column in keys %}key_{{ declared.dimensions.index(column) }}{{ ', ' if not loop.last }}{% endfor %}
            from unnest({% for column in keys %}touched_{{ declared.dimensions.index(column) }}{{ ', ' if not loop.last }}{% endfor %})
                as touched ({% for column in keys %}key_{{ declared.dimensions.index(column) }}{{ ', ' if not loop.last }}{% endfor %})
        ) as touched
        inner join {{ waltally.name_table() }} as stored
            on {% for column in keys %}{{ ' and ' if not loop.first }}stored.{{ waltally.quote_name(column.name) }} = touched.key_{{ declared.dimensions.index(column) }}{% endfor %};
{%- endmacro %}

{# SQL: the changes of a batch to a table's rows, for apply_rows: as read_row_changes has them, with the row's key
   as key_0, key_1, ..., is_hard, and is_last of the last change of a row that is not hard. #}
{% macro sort_row_changes(declared) %}
{%- set keys = [] -%}
{%- set olds = [] -%}
{%- set news = [] -%}
{%- set own = [] -%}
{%- for column in declared.dimensions if column.name in declared.key -%}
    {%- set place = declared.dimensions.index(column) -%}
    {%- do keys.append('key_' ~ place) -%}
    {%- do olds.append('old_' ~ place) -%}
    {%- do news.append('new_' ~ place) -%}
    {%- do own.append('case when has_new then new_' ~ place ~ ' else old_' ~ place ~ ' end as key_' ~ place) -%}
{%- endfor %}
with row_changes as materialized (
{{ waltally.read_row_changes(declared, 'unnest($3)', '($4)', '($5)', '$2') }}
),

keyed as (
    select
        *,
        {{ own | join(',\n        ') }},
        coalesce(has_old and has_new and ({{ olds | join(', ') }}) <> ({{ news | join(', ') }}), false) as is_moved,
        coalesce(has_new and not (
            {%- for column in declared.dimensions %}has_{{ loop.index0 }}{{ ' and ' if not loop.last }}{% endfor -%}
        ), false) as is_part,
        bool_or(action = 'T' or rejected_reason is not null) over () as is_special
    from row_changes
),

hard as (
    select {{ keys | join(', ') }} from keyed where is_moved or is_part
    union
    select {{ olds | join(', ') }} from keyed where is_moved
)

select
    *,
    not is_hard and row_number() over (
        partition by is_hard, {{ keys | join(', ') }} order by commit_lsn desc, ordinal desc
    ) = 1 and (has_new or has_old) as is_last
from (
    select
        keyed.*,
        -- IN is hashed, whatever the planner expects; EXISTS would go through all of them for each change.
        is_special or (
            ({{ 'keyed.' ~ keys | join(', keyed.') }}) in (select {{ 'hard.' ~ keys | join(', hard.') }} from hard)
        ) is true as is_hard
    from keyed
) as judged
{% endmacro %}
