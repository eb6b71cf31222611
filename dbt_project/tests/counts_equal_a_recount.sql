-- The counts equal a recount of the source tables. It is off by default, because it is right only
-- while nothing writes to them: --vars 'recount: true'.
-- Purged rows stay counted, so an archived count may be above the recount. Where no row was ever
-- purged, --vars '{recount: true, recount_archived: exact}' compares them exactly.
{%- set tables = {} -%}
{%- for part in ['live', 'archived'] if var('recount') -%}
    {%- do tables.update({part: find_table(get_counted_table(loop.index0))}) -%}
    {%- if execute and tables[part] is none -%}
        {{ exceptions.raise_compiler_error(
            'A recount needs ' ~ get_counted_table(loop.index0) | join('.') ~ ' in this database.'
        ) }}
    {%- endif -%}
{%- endfor %}
{%- set dimensions = 'service_id, template_id, notification_type, notification_status' %}

with facts as (
    select * from {{ ref('ft_service_stats') }}
),

{%- for part, table in tables.items() %}
{{ part }} as (
    select
        service_id,
        template_id,
        notification_type::text as notification_type,
        notification_status::text as notification_status,
        count(*) as recount
    from {{ table }}
    where num_nulls({{ dimensions }}) = 0
    group by {{ dimensions }}
),
{% endfor %}
differences as (
    {%- for part, table in tables.items() %}
    select
        '{{ part }}' as part,
        {{ dimensions }},
        coalesce(facts.{{ part }}_count, 0) as counted,
        coalesce({{ part }}.recount, 0) as recounted
    from facts
    full join {{ part }} using ({{ dimensions }})
    where
        coalesce(facts.{{ part }}_count, 0)
        {{ '<' if part == 'archived' and var('recount_archived') != 'exact' else 'is distinct from' }}
        coalesce({{ part }}.recount, 0)
    {{ 'union all' if not loop.last }}
    {%- else %}
    select 1 as skipped
    where false
    {%- endfor %}
)

select * from differences
