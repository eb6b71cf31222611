{# SQL: the rows of the fact under which a changed row of a lookup may be. `touched` is a FROM item with the
   keys of the changed rows. #}
{% macro list_touched_rows(resolved, relation, touched) %}
    {%- for lookup in resolved.lookups if lookup.relation == relation %}
    {%- set way = [] -%}
    {%- for step in resolved.lookups | reverse if step != lookup -%}
        {%- if step.alias in lookup.by.values() | map(attribute='alias')
            or way | selectattr('needs', 'contains', step.alias) | list -%}
            {%- do way.append({'lookup': step, 'needs': step.by.values() | map(attribute='alias') | join(' ')}) -%}
        {%- endif -%}
    {%- endfor %}
    {{ 'union' if not loop.first }}
    select f.*
    from {{ touched }} as touched
    {%- for step in way %}
    cross join {{ step.lookup.relation }} as {{ step.lookup.alias }}
    {%- endfor %}
    cross join {{ resolved.fact }} as f
    where
        {%- for key, by in lookup.by.items() %}
        {{ 'and ' if not loop.first }}touched.{{ key }} = {{ by.sql }}
        {%- endfor %}
        {%- for step in way %}
        {%- for key, by in step.lookup.by.items() %}
        and {{ step.lookup.alias }}.{{ key }} = {{ by.sql }}
        {%- endfor %}
        {%- endfor %}
    {%- endfor %}
{%- endmacro %}
