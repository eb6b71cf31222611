{# SQL: each group of a fact and each current row that is not what the source tables give. #}
{% macro recount_facts() %}
{%- set found = [] -%}
{%- for node in (graph.nodes.values() if execute else []) if node.config.meta.waltally -%}
    {%- set relation = adapter.get_relation(target.database, node.schema, node.alias) -%}
    {%- if relation is none -%}
        {%- do log('Skipped: ' ~ node.name ~ ' is not there yet.', info=true) -%}
    {%- elif node.config.meta.waltally.kind == 'current_rows' -%}
        {%- do found.append(waltally.recount_rows(node.name, relation, node.config.meta.waltally)) -%}
    {%- else -%}
        {%- do found.append(waltally.recount_fact(node.name, relation, node.config.meta.waltally)) -%}
    {%- endif -%}
{%- endfor %}
{%- do found.append(
    'select null::text as fact, null::text as measure, null::text as in_group, '
    ~ 'null::numeric as counted, null::numeric as recounted where false'
) %}
{{ found | join('\nunion all\n') }}
{% endmacro %}
