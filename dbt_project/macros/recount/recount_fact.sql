{# SQL: the groups of a fact in which a measure is not what its source tables give. #}
{% macro recount_fact(name, relation, declared) %}
{%- set measures = declared.measures | length -%}
{%- set keys = waltally.number_names('d', declared.dimensions | length) -%}
select
    {{ waltally.quote_literal(name) }} as fact,
    compared.measure,
    row({{ keys }})::text as in_group,
    compared.counted,
    compared.recounted
from (
    select
        {{ keys }},
        {%- for measure in declared.measures %}
        sum(c{{ loop.index0 }})::numeric as c{{ loop.index0 }},
        sum(r{{ loop.index0 }})::numeric as r{{ loop.index0 }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            {%- for dimension in declared.dimensions %}
            {{ waltally.quote_name(dimension.name) }} as d{{ loop.index0 }},
            {%- endfor %}
            {%- for measure in declared.measures %}
            {{ waltally.quote_name(measure.name) }}::numeric as c{{ loop.index0 }},
            0::numeric as r{{ loop.index0 }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ relation }}{{ waltally.write_slot_filter(declared) }}
        {%- for table in declared.tables %}

        union all

        {{ waltally.recount_table(declared, table) }}
        {%- endfor %}
    ) as counted_and_recounted
    group by {{ keys }}
) as groups
cross join lateral (
    values
    {%- for measure in declared.measures %}
    (
        {{ waltally.quote_literal(measure.name) }},
        c{{ loop.index0 }},
        r{{ loop.index0 }},
        {{ waltally.is_recount_different(declared, measure, 'c' ~ loop.index0, 'r' ~ loop.index0) }}
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as compared (measure, counted, recounted, is_different)
where compared.is_different
{% endmacro %}
