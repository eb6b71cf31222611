{# Statements of a trigger: add a delta to the hidden tables of values, then to the roll-up. `delta` is a query as
   select_finer makes it: the rows of before with a minus, and those of after. #}
{% macro apply_delta(resolved, derived, hidden, delta) %}
{%- set changes = [] -%}
{%- if hidden %}
with delta as materialized ({{ delta }})
{%- for table in hidden %}
{%- do changes.append('select id, sum(change) as change from unnest(changes_' ~ loop.index0 ~ ') group by id') %},

changed_{{ loop.index0 }} as (
    insert into {{ table }} as stored (id, value, group_count, weight)
    {{ waltally.count_values(loop.index0, 'delta') }}
    on conflict (id, value) do update
    set
        group_count = stored.group_count + excluded.group_count,
        weight = stored.weight + excluded.weight,
        was_there = stored.group_count > 0
    returning stored.id, (stored.group_count > 0)::integer - stored.was_there::integer as change
)
{%- endfor %}

select
    {%- for table in hidden %}
    (select array_agg(row(id, change)::{{ waltally.get_staging_schema() }}.value_change) from changed_{{ loop.index0 }}){{ ',' if not loop.last }}
    {%- endfor %}
into {% for table in hidden %}changes_{{ loop.index0 }}{{ ', ' if not loop.last }}{% endfor %};
{%- for table in hidden %}
delete from {{ table }} where group_count = 0 and weight = 0;
{%- endfor %}
{%- endif %}
{{ waltally.apply_groups(resolved, derived, hidden, delta, changes) }}
{% endmacro %}

{# A query: how often each value of a hidden table is in each group of the finer rows. #}
{% macro count_values(place, finer) %}
select id, v{{ place }}, sum(group_count), sum(weight)
    from {{ finer }} as finer
    where v{{ place }} is not null
    group by id, v{{ place }}
    having sum(group_count) <> 0 or sum(weight) <> 0
{%- endmacro %}

{# A statement: add a delta to the groups that it touches. `changes` has a query for each hidden table, which holds the
   delta's values already: by group, by how much the number of its values has changed. #}
{% macro apply_groups(resolved, derived, hidden, delta, changes) %}
{%- set places = waltally.number_names('d', resolved.dimensions | length) -%}
{%- set keys = waltally.quote_names(resolved.dimensions | map(attribute='name')) -%}
{%- set names = resolved.measures | map(attribute='name') | list -%}
{%- set all_names = waltally.quote_names(names + derived.keys() | list) -%}
with summed as (
    select
        id,
        {%- for measure in resolved.measures if measure.kind == 'sum' %}
        sum(s{{ loop.index0 }}) as s{{ loop.index0 }},
        {%- endfor %}
        {{ places }}
    from ({{ delta }}) as delta
    group by id, {{ places }}
),

totals as (
    select
        {%- for change in changes %}
        coalesce(changed_{{ loop.index0 }}.change, 0) as c{{ loop.index0 }},
        changed_{{ loop.index0 }}.id is not null as h{{ loop.index0 }},
        {%- endfor %}
        summed.*
    from summed
    {%- for change in changes %}
    left join ({{ change }}) as changed_{{ loop.index0 }} on changed_{{ loop.index0 }}.id = summed.id
    {%- endfor %}
    where
        {%- for measure in resolved.measures if measure.kind == 'sum' %}
        summed.s{{ loop.index0 }} <> 0 or
        {%- endfor %}
        {%- for change in changes %}
        changed_{{ loop.index0 }}.id is not null or
        {%- endfor %}
        false
)

insert into {{ this }} as stored (id, {{ keys }}, {{ all_names }})
select totals.id, {{ waltally.number_names('totals.d', resolved.dimensions | length) }}, {{ waltally.quote_names(names + derived.keys() | list, 'wanted') }}
from totals
cross join lateral (
    select {{ waltally.quote_names(names) }}{{ ', ' ~ derived.values() | join(', ') if derived }}
    from (select{{ waltally.select_measures(resolved, hidden) }}) as measures
) as wanted ({{ all_names }})
on conflict ({{ keys }}) do update
set ({{ all_names }}) = (
    select {{ waltally.quote_names(names) }}{{ ', ' ~ derived.values() | join(', ') if derived }}
    from (
        select
            {%- for measure in resolved.measures %}
            {{ 'stored.' ~ waltally.quote_name(measure.name) ~ ' + ' if measure.kind in ['sum', 'distinct'] }}excluded.{{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
            {%- endfor %}
    ) as total ({{ waltally.quote_names(names) }})
);
{% endmacro %}

{# SQL: the measures of groups `totals`: what is added to them, or where nothing can be added, what they are now. The
   values of a group are searched only where one of them has changed. #}
{% macro select_measures(resolved, hidden) %}
    {%- set sums = resolved.measures | selectattr('kind', 'equalto', 'sum') | list -%}
    {%- for measure in resolved.measures %}
    {%- set name = waltally.quote_name(measure.name) %}
    {%- if measure.kind == 'sum' %}
    totals.s{{ sums.index(measure) }}::{{ measure.type }}
    {%- elif measure.kind == 'distinct' %}
    totals.c{{ measure.value }}::bigint
    {%- else %}
    case when totals.h{{ measure.value }} then (
        {%- if measure.kind == 'percentile' %}
        select walked.value
        from (
            select
                stored.value,
                sum(stored.weight) over (order by stored.value) as up_to,
                sum(stored.weight) over () as total
            from {{ hidden[measure.value] }} as stored
            where stored.id = totals.id and stored.weight > 0
        ) as walked
        -- As percentile_disc() has it.
        where walked.up_to >= ceil({{ measure.fraction }}::double precision * walked.total::double precision)
        order by walked.value
        limit 1
        {%- else %}
        select stored.value
        from {{ hidden[measure.value] }} as stored
        where stored.id = totals.id and stored.group_count > 0
        order by stored.value{{ ' desc' if measure.kind == 'max' }}
        limit 1
        {%- endif %}
    ) else (select own.{{ name }} from {{ this }} as own where own.id = totals.id) end
    {%- endif %} as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
