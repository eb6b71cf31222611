{# Every derived column of a fact or a roll-up is what its expression gives for the measures. #}
{% test follows_expressions(model) %}
{%- set facts = [] -%}
{%- for node in (graph.nodes.values() if execute else [])
    if node.unique_id == context['model'].attached_node -%}
    {%- do facts.append(node.config.meta) -%}
{%- endfor -%}
{%- for meta in facts %}
select stored.id
from {{ model }} as stored
cross join lateral (
    select
        {%- for column, expression in meta.derived.items() %}
        {{ expression }} as derived_{{ loop.index0 }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            {%- for measure in (meta.waltally or meta.waltally_roll_up).measures %}
            stored.{{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
            {%- endfor %}
    ) as measures
) as expressions
where
    {%- for column in meta.derived %}
    stored.{{ waltally.quote_name(column) }} is distinct from expressions.derived_{{ loop.index0 }} or
    {%- endfor %}
    false
{%- else %}
select 1 as skipped where false
{%- endfor %}
{% endtest %}
