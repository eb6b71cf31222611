{# Statements of a trigger: take over what changed. `delta` is a query as select_finer makes it, of the rows
   before, with a minus, and of those after. #}
{% macro apply_delta(resolved, derived, hidden, delta) %}
{%- set places = resolved.dimensions | length -%}
{%- set sums = resolved.measures | selectattr('kind', 'equalto', 'sum') | list -%}
{%- set added = resolved.measures | selectattr('kind', 'in', ['sum', 'distinct']) | map(attribute='name') | list -%}
{%- set found = resolved.measures | rejectattr('kind', 'in', ['sum', 'distinct']) | map(attribute='name') | list -%}
{%- set names = added + found -%}
{%- if hidden %}
with delta as materialized ({{ delta }})
{%- for table in hidden %},

changed_{{ loop.index0 }} as (
    insert into {{ table }} as stored (id, value, group_count, weight)
    select id, v{{ loop.index0 }}, sum(group_count), sum(weight)
    from delta
    where v{{ loop.index0 }} is not null
    group by id, v{{ loop.index0 }}
    having sum(group_count) <> 0 or sum(weight) <> 0
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
with delta as ({{ delta }}),
{%- for table in hidden %}

changed_{{ loop.index0 }} as (
    select id, sum(change) as change from unnest(changes_{{ loop.index0 }}) group by id
),
{%- endfor %}

summed as (
    select
        id,
        {%- for sum in sums %}
        sum(s{{ loop.index0 }}) as s{{ loop.index0 }},
        {%- endfor %}
        {{ waltally.number_names('d', places) }}
    from delta
    group by id, {{ waltally.number_names('d', places) }}
),

totals as (
    select
        summed.*,
        {%- for table in hidden %}
        coalesce(changed_{{ loop.index0 }}.change, 0) as c{{ loop.index0 }},
        changed_{{ loop.index0 }}.id is not null as h{{ loop.index0 }},
        {%- endfor %}
        {% for table in hidden %}changed_{{ loop.index0 }}.id is not null or {% endfor %}false as has_other_values
    from summed
    {%- for table in hidden %}
    left join changed_{{ loop.index0 }} on changed_{{ loop.index0 }}.id = summed.id
    {%- endfor %}
)

insert into {{ this }} as stored (id, {{ waltally.quote_names(resolved.dimensions | map(attribute='name')) }}, {{ waltally.quote_names(names + derived.keys() | list) }})
select
    totals.id,
    {{ waltally.number_names('totals.d', places) }},
    {{ waltally.quote_names(names, 'measures') }}
    {%- for expression in derived.values() %},
    {{ expression }}
    {%- endfor %}
from totals
cross join lateral (
    select{{ waltally.select_measures(resolved, hidden, of_changed=true) }}
) as measures
where
    {%- for sum in sums %}
    totals.s{{ loop.index0 }} <> 0 or
    {%- endfor %}
    totals.has_other_values
on conflict ({{ waltally.quote_names(resolved.dimensions | map(attribute='name')) }}) do update
set ({{ waltally.quote_names(names + derived.keys() | list) }}) = (
    select {{ waltally.quote_names(names) }}{{ ', ' ~ derived.values() | join(', ') if derived }}
    from (
        select
            {%- for name in added %}
            stored.{{ waltally.quote_name(name) }} + excluded.{{ waltally.quote_name(name) }} as {{ waltally.quote_name(name) }}{{ ',' if found or not loop.last }}
            {%- endfor %}
            {%- for name in found %}
            excluded.{{ waltally.quote_name(name) }}{{ ',' if not loop.last }}
            {%- endfor %}
    ) as total
);
{% endmacro %}
