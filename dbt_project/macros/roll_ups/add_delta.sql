{# Statements: add a delta to the hidden tables of values, then to the groups of the roll-up. `read` are CTEs, of which the
   last is `delta`: rows as select_finer makes them; `read_values` are those for the hidden tables, where they differ.
   Where `is_told`, the outcome tells which groups changed, for the roll-ups above. #}
{% macro add_delta(resolved, derived, hidden, read, is_told, read_values=none) %}
{%- set names = resolved.measures | map(attribute='name') | list -%}
{%- set all_names = waltally.quote_names(names + derived.keys() | list) -%}
{%- set expressions = waltally.join_list([waltally.quote_names(names)] + derived.values() | list) -%}
{%- if hidden %}
    {{ waltally.add_values(resolved, hidden, read_values or read) }}
{%- endif %}
    {{ read }},
    {%- for table in hidden %}

    {{ waltally.count_changed(resolved, loop.index0, table) }},
    {%- endfor %}

    {{ waltally.total_parts(resolved, hidden) }}
    {%- if is_told %},

    before as (
        select own.* from totals inner join {{ waltally.name_table() }} as own on own.id = totals.id
        where $2
    ),

    added as (
    {%- endif %}

    insert into {{ waltally.name_table() }} as stored (
        id,
        {{ waltally.quote_names(resolved.dimensions | map(attribute='name')) }},
        {{ all_names }}
    )
    select
        totals.id,
        {{ waltally.number_names('totals.d', resolved.dimensions | length) }},
        {{ waltally.quote_names(names + derived.keys() | list, 'wanted') }}
    from totals
    cross join lateral (
        select {{ expressions }}
        from (select {{- waltally.select_measures(resolved, hidden) }}) as measures
    ) as wanted (
        {{ all_names }}
    )
    on conflict ({{ waltally.quote_names(resolved.dimensions | map(attribute='name')) }}) do update
    set (
        {{ all_names }}
    ) = (
        select {{ expressions }}
        from (
            select
                {%- for measure in resolved.measures %}
                {{ 'stored.' ~ waltally.quote_name(measure.name) ~ ' + ' if measure.kind in ['sum', 'distinct'] }}excluded.{{ waltally.quote_name(measure.name) }} as {{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
                {%- endfor %}
        ) as total
    )
    {%- if is_told %}
    returning stored.*
    )

    select array_agg(row(told.before, told.after)::{{ waltally.get_staging_schema() }}.moved_row) into result.moved
    from (
        select {{ waltally.print_group(resolved) }} as before, null::text[] as after
        from before as stored
        union all
        select null, {{ waltally.print_group(resolved) }}
        from added as stored
        where $2
    ) as told
    {%- endif %};
{% endmacro %}

{# Statements: add a delta to the hidden tables, each of which has how often a value is in each group. #}
{% macro add_values(resolved, hidden, read) %}
    {{- read }}
    {%- for table in hidden %}
    {%- if not loop.last %},

    added_{{ loop.index0 }} as (
    {%- endif %}
    insert into {{ table }} as stored (id, value, group_count, weight)
    {{ waltally.count_values(resolved, loop.index0) }}
    on conflict (id, value) do update
    set group_count = stored.group_count + excluded.group_count, weight = stored.weight + excluded.weight
    {%- if not loop.last %}
    )
    {%- endif %}
    {%- endfor %};
    {%- for table in hidden %}
    delete from {{ table }} where group_count = 0 and weight = 0;
    {%- endfor %}
{% endmacro %}

{# A query: how often the delta adds each value of a hidden table to each group; with `dimensions`, those of the group
   too. #}
{% macro count_values(resolved, place, dimensions=none) -%}
    {%- set value = 'v' ~ place ~ (' collate "C"' if resolved['values'][place].type == 'text' else '') -%}
    {%- set also = ', ' ~ dimensions if dimensions else '' -%}
    select id, {{ value }} as value, sum(group_count) as group_count, sum(weight) as weight{{ also }}
    from delta
    where v{{ place }} is not null
    group by id, {{ value }}{{ also }}
    having sum(group_count) <> 0 or sum(weight) <> 0
{%- endmacro %}

{# A CTE: how many more values of a hidden table each group has than before. The table holds the delta already. #}
{% macro count_changed(resolved, place, table) -%}
    {%- set dimensions = waltally.number_names('d', resolved.dimensions | length) -%}
    changed_{{ place }} as (
        select
            added.id,
            sum((now.group_count > 0)::integer - (now.group_count - added.group_count > 0)::integer) as change,
            {{ waltally.number_names('added.d', resolved.dimensions | length) }}
        from (
            {{ waltally.count_values(resolved, place, dimensions) }}
        ) as added
        cross join lateral (
            select coalesce((
                select stored.group_count from {{ table }} as stored
                where stored.id = added.id and stored.value = added.value
            ), 0) as group_count
        ) as now
        group by added.id, {{ waltally.number_names('added.d', resolved.dimensions | length) }}
    )
{%- endmacro %}

{# CTEs: what is added to each group: sums as s0, s1, ..., by hidden table the change of its number of values as c0,
   c1, ..., and whether a value changed at all as h0, h1, ... #}
{% macro total_parts(resolved, hidden) -%}
    {%- set dimensions = waltally.number_names('d', resolved.dimensions | length) -%}
    {%- set sums = resolved.measures | selectattr('kind', 'equalto', 'sum') | list -%}
    -- Added and not joined: the routine's settings allow no hash join, and a nested loop would go through all groups
    -- for each one.
    parts as (
        select
            id,
            {%- for sum in sums %}
            s{{ loop.index0 }},
            {%- endfor %}
            {%- for table in hidden %}
            0 as c{{ loop.index0 }}, false as h{{ loop.index0 }},
            {%- endfor %}
            {{ dimensions }}
        from delta
        {%- for table in hidden %}
        {%- set place = loop.index0 %}
        union all
        select
            id,
            {% for sum in sums %}0, {% endfor -%}
            {%- for other in hidden %}{{ 'change, true, ' if loop.index0 == place else '0, false, ' }}{% endfor %}
            {{ dimensions }}
        from changed_{{ place }}
        {%- endfor %}
    ),

    totals as (
        select
            id,
            {%- for sum in sums %}
            sum(s{{ loop.index0 }}) as s{{ loop.index0 }},
            {%- endfor %}
            {%- for table in hidden %}
            sum(c{{ loop.index0 }}) as c{{ loop.index0 }}, bool_or(h{{ loop.index0 }}) as h{{ loop.index0 }},
            {%- endfor %}
            {{ dimensions }}
        from parts
        group by id, {{ dimensions }}
        having
            {%- for sum in sums %}
            sum(s{{ loop.index0 }}) <> 0 or
            {%- endfor %}
            {%- for table in hidden %}
            bool_or(h{{ loop.index0 }}) or
            {%- endfor %}
            false
    )
{%- endmacro %}

{# SQL: a row `stored` of the roll-up as the texts of moved_row. #}
{% macro print_group(resolved) -%}
    array[
            {%- for column in resolved.dimensions + resolved.measures %}
            stored.{{ waltally.quote_name(column.name) }}::text{{ ',' if not loop.last }}
            {%- endfor %}
        ]
{%- endmacro %}

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
                ) else (
                    select own.{{ name }} from {{ waltally.name_table() }} as own
                    where own.id = totals.id
                ) end
    {%- endif %} as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
