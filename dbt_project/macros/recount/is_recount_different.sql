{# SQL text: is a measure of a group other than its recount? Purged rows, which a table whose
   deletes are ignored keeps, may be above it. #}
{% macro is_recount_different(declared, measure, counted, recounted) -%}
    {%- set keeps_purged = declared.tables | selectattr('deletes', 'equalto', 'ignore')
        | selectattr('name', 'in', measure.of) | list -%}
    {%- if keeps_purged and var('recount_archived', 'at least') != 'exact' -%}
        {{ counted ~ ' < ' ~ recounted if measure.kind == 'count' else 'false' }}
    {%- else -%}
        {{ counted }} is distinct from {{ recounted }}
    {%- endif -%}
{%- endmacro %}
