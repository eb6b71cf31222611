{# SQL: what rows of the finer fact stand for in the roll-up: its group as d0, d1, ... and id, the values of
   min, max, distinct and percentile as v0, v1, ..., what is summed as s0, s1, ..., whether the group is there
   and what it weighs. `source` is a query's FROM item of rows of the fact, `replaced` holds FROM items for
   lookups: the rows that were there before. #}
{% macro select_finer(resolved, source, sign='', replaced={}) %}
    select
        {%- for dimension in resolved.dimensions %}
        {{ dimension.sql }} as d{{ loop.index0 }},
        {%- endfor %}
        -- The same group has the same id, however often the roll-up is filled.
        md5(row({{ resolved.dimensions | map(attribute='sql') | join(', ') }})::text)::uuid as id,
        {%- for value in resolved['values'] %}
        {{ value.sql }} as v{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in resolved.measures if measure.kind == 'sum' %}
        {{ sign }}{{ measure.sql }} as s{{ loop.index0 }},
        {%- endfor %}
        {{ sign }}({{ resolved.present }} <> 0)::integer as group_count,
        {{ sign }}{{ resolved.present }} as weight
    from {{ source }} as f
    {%- for lookup in resolved.lookups %}
    left join {{ replaced.get(lookup.alias, lookup.relation) }} as {{ lookup.alias }}
        on
            {%- for key, by in lookup.by.items() %}
            {{ 'and ' if not loop.first }}{{ lookup.alias }}.{{ waltally.quote_name(key) }} = {{ by.sql }}
            {%- endfor %}
    {%- endfor %}
{%- endmacro %}

{# SQL: the rows of the fact under which a changed row of a lookup may be. `touched` is a FROM item with the
   keys of the changed rows. #}
{% macro select_touched(resolved, relation, touched) %}
    {%- for lookup in resolved.lookups if lookup.relation == relation %}
    {#- The lookups between this one and the fact, from here on. -#}
    {%- set way = [lookup] -%}
    {%- for step in resolved.lookups | reverse if step != lookup -%}
        {%- for near in way | list if step.alias in near.by.values() | map(attribute='alias') and step not in way -%}
            {%- do way.append(step) -%}
        {%- endfor -%}
    {%- endfor %}
    {{ 'union' if not loop.first }}
    select f.*
    from {{ touched }} as {{ lookup.alias }}
    {%- for step in way[1:] %}
    cross join {{ step.relation }} as {{ step.alias }}
    {%- endfor %}
    cross join {{ resolved.fact }} as f
    where
        {%- for step in way %}
        {%- set is_first = loop.first %}
        {%- for key, by in step.by.items() %}
        {{ 'and ' if not (is_first and loop.first) }}{{ step.alias }}.{{ waltally.quote_name(key) }} = {{ by.sql }}
        {%- endfor %}
        {%- endfor %}
    {%- endfor %}
{%- endmacro %}
