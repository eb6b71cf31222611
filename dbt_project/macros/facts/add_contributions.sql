{# SQL: add what a batch contributes to each group to what the table holds, and compute the derived columns
   again. A row that would stay as it is is not written. It comes after the CTE `contributions`, whose rows
   are d0, d1, ..., m0, m1, ... and is_stored, which says that the group must be looked at in any case.
   The CTE `told` holds the groups that changed, for the roll-ups above. #}
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
    returning
        {%- for name in declared.dimensions | map(attribute='name') | list %}
        stored.{{ waltally.quote_name(name) }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for name in measures %}
        stored.{{ waltally.quote_name(name) }} as m{{ loop.index0 }}{{ ',' if not loop.last }}
        {%- endfor %}
),
{{ waltally.tell_groups(declared) }}
{%- endmacro %}

{# CTEs: which groups changed, as rows of moved_row. Before, a group held what it holds now less what was added to it.
   They are grouped and not joined, because null is a group too. #}
{% macro tell_groups(declared) %}
    {%- set staging = waltally.get_staging_schema() -%}
    {%- set places = declared.measures | length -%}
    {%- set numbers = waltally.number_names('d', declared.dimensions | length) -%}
moved as (
    select
        {{ numbers }},
        {%- for place in range(places) %}
        sum(m{{ place }}) as m{{ place }},
        sum(a{{ place }}) as a{{ place }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select {{ numbers }}, {{ waltally.number_names('m', places) }}{% for place in range(places) %}, 0 as a{{ place }}{% endfor %}
        from added
        union all
        select {{ numbers }}{% for place in range(places) %}, 0{% endfor %}, {{ waltally.number_names('m', places) }}
        from totals
    ) as both_sides
    where $7 and (select count(*) from totals) <= {{ staging }}.slice_size() / 10
    group by {{ numbers }}
    having {% for place in range(places) %}sum(a{{ place }}) <> 0{{ ' or ' if not loop.last }}{% endfor %}
),

told as (
    select
        array_agg(row(
            array[
                {%- for place in range(declared.dimensions | length) %}d{{ place }}::text, {% endfor -%}
                {%- for place in range(places) %}(m{{ place }} - a{{ place }})::text{{ ', ' if not loop.last }}{% endfor -%}
            ],
            array[
                {%- for place in range(declared.dimensions | length) %}d{{ place }}::text, {% endfor -%}
                {%- for place in range(places) %}m{{ place }}::text{{ ', ' if not loop.last }}{% endfor -%}
            ]
        )::{{ staging }}.moved_row) as moved,
        -- Then the roll-ups are filled apart, so that the other models do not wait for them.
        $7 and (select count(*) from totals) > {{ staging }}.slice_size() / 10 as is_reset
    from moved
)
{%- endmacro %}
