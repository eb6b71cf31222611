{# SQL: the measures of groups `totals`, whose sums are s0, s1, ... and whose numbers of new values are c0, c1,
   ...: what they add, or where nothing can be added, what they are now. With `of_changed` the values of a group
   are searched only where h0, h1, ... say that one of them is another. #}
{% macro select_measures(resolved, hidden, of_changed=false) %}
    {%- set sums = resolved.measures | selectattr('kind', 'equalto', 'sum') | list -%}
    {%- for measure in resolved.measures %}
    {%- if measure.kind == 'sum' %}
    totals.s{{ sums.index(measure) }}::{{ measure.type }}
    {%- elif measure.kind == 'distinct' %}
    totals.c{{ measure.value }}::bigint
    {%- else %}
    {{ 'case when totals.h' ~ measure.value ~ ' then ' if of_changed }}(
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
    ) {{ 'else (select own.' ~ waltally.quote_name(measure.name) ~ ' from ' ~ this ~ ' as own where own.id = totals.id) end' if of_changed }}
    {%- endif %} as {{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
