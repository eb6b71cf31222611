-- Every fact, and every table of current rows, equals a recount of the source tables. It is off by
-- default, because it is right only while nothing writes to them: --vars 'recount: true'.
-- Purged rows stay counted, so a count of a table whose deletes are ignored may be above the recount,
-- and a sum of one is not compared. Where no row was ever purged, compare both exactly by
-- --vars '{recount: true, recount_archived: exact}'.
{%- set found = [] -%}
{%- for node in (graph.nodes.values() if execute and var('recount', false) else [])
    if node.config.meta.waltally -%}
    {%- set relation = api.Relation.create(schema=node.schema, identifier=node.alias) -%}
    {%- if adapter.get_relation(target.database, node.schema, node.alias) is none -%}
        {%- do log('Skipped: ' ~ relation ~ ' is not there yet.', info=true) -%}
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
