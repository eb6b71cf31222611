{# SQL: add what a batch contributes to each group to what the table holds, and compute the derived columns
   anew. A row that would stay as it is is not written. It comes after the CTE `contributions`, whose rows
   are d0, d1, ..., m0, m1, ... and is_stored, which says that the group must be looked at in any case. #}
{% macro add_contributions(declared, derived) %}
    {%- set measures = declared.measures | map(attribute='name') | list -%}
    {%- set keys = waltally.quote_names(declared.dimensions | map(attribute='name')) -%}
    {%- set computed = waltally.quote_names(derived.keys() | list + measures) -%}
    {%- set columns = 'id, ' ~ keys ~ ', ' ~ computed -%}
    {%- set numbers = waltally.number_names('d', declared.dimensions | length) %}
totals as (
    select
        {{ numbers }},
        {%- for measure in declared.measures %}
        sum(m{{ loop.index0 }})::{{ measure.type }} as m{{ loop.index0 }}{{ ',' if not loop.last }}
        {%- endfor %}
    from contributions
    group by {{ numbers }}
    having
        {%- for measure in declared.measures %}
        sum(m{{ loop.index0 }}) <> 0 or
        {%- endfor %}
        bool_or(is_stored)
),

added as (
    insert into {{ waltally.name_table() }} as stored ({{ columns }})
    select
        -- The same group has the same id, however often the fact is rebuilt.
        md5(row({{ waltally.number_names('totals.d', declared.dimensions | length) }})::text)::uuid,
        {{ waltally.number_names('totals.d', declared.dimensions | length) }},
        {%- for expression in derived.values() %}
        {{ expression }},
        {%- endfor %}
        {{ waltally.quote_names(measures, 'measures') }}
    from totals
    cross join lateral (
        select
            {%- for measure in declared.measures %}
            totals.m{{ loop.index0 }} as {{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
            {%- endfor %}
    ) as measures
    on conflict ({{ keys }}) do update
    set ({{ waltally.quote_names(measures + derived.keys() | list) }}) = (
        select {{ waltally.quote_names(measures) }}{{ ', ' ~ derived.values() | join(', ') if derived }}
        from (
            select
                {%- for measure in measures %}
                stored.{{ waltally.quote_name(measure) }} + excluded.{{ waltally.quote_name(measure) }} as {{ waltally.quote_name(measure) }}{{ ',' if not loop.last }}
                {%- endfor %}
        ) as total
    )
    where
        {% for measure in measures %}excluded.{{ waltally.quote_name(measure) }} <> 0 or {% endfor -%}
        {%- for column, expression in derived.items() %}
        stored.{{ waltally.quote_name(column) }} is distinct from (
            select {{ expression }}
            from (
                select
                    {%- for measure in measures %}
                    stored.{{ waltally.quote_name(measure) }}{{ ',' if not loop.last }}
                    {%- endfor %}
            ) as total
        ) or
        {%- endfor %} false
)
{%- endmacro %}
