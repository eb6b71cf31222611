{# Statements that make a roll-up hold what its inputs hold. What stays the same is not written. #}
{% macro fill_roll_up(resolved, derived, hidden) %}
{%- set places = resolved.dimensions | length -%}
{%- set sums = resolved.measures | selectattr('kind', 'equalto', 'sum') | list -%}
{%- set names = resolved.measures | map(attribute='name') | list + derived.keys() | list -%}
{%- set finer = waltally.select_finer(resolved, resolved.fact) -%}
{%- for table in hidden %}
insert into {{ table }} (id, value, group_count, weight)
select id, v{{ loop.index0 }}, sum(group_count), sum(weight)
from ({{ finer }}) as finer
where v{{ loop.index0 }} is not null
group by id, v{{ loop.index0 }}
having sum(group_count) <> 0 or sum(weight) <> 0;
analyze {{ table }};
{%- endfor %}
with summed as (
    select
        id,
        {%- for sum in sums %}
        sum(s{{ loop.index0 }}) as s{{ loop.index0 }},
        {%- endfor %}
        {{ waltally.number_names('d', places) }}
    from ({{ finer }}) as finer
    group by id, {{ waltally.number_names('d', places) }}
),

wanted as materialized (
    select totals.id, {{ waltally.number_names('totals.d', places) }}, measures.*
        {%- for expression in derived.values() %}, {{ expression }} as e{{ loop.index0 }}{% endfor %}
    from (
        select
            {%- for table in hidden %}
            (select count(*) from {{ table }} as stored where stored.id = summed.id and stored.group_count > 0) as c{{ loop.index0 }},
            {%- endfor %}
            summed.*
        from summed
    ) as totals
    cross join lateral (
        select{{ waltally.select_measures(resolved, hidden) }}
    ) as measures
),

gone as (
    delete from {{ this }} as stored
    where not exists (select from wanted where wanted.id = stored.id)
)

insert into {{ this }} as stored (id, {{ waltally.quote_names(resolved.dimensions | map(attribute='name') | list + names) }})
select * from wanted
on conflict ({{ waltally.quote_names(resolved.dimensions | map(attribute='name')) }}) do update
set ({{ waltally.quote_names(names) }}) = row({{ waltally.quote_names(names, 'excluded') }})
where ({{ waltally.quote_names(names, 'stored') }}) is distinct from ({{ waltally.quote_names(names, 'excluded') }});
{% endmacro %}
