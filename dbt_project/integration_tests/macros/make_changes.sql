{# Rows of the change log for a unit test: each change has the arguments of make_change. Without an
   action it is an insert where it has only a new image, a delete where it has only an old one, and
   else an update. Their ordinals are 1, 2 and so on. #}
{% macro make_changes(changes, table='public.notifications') %}
    {%- for change in changes -%}
        {%- set action = 'U' if 'new' in change and 'old' in change else 'I' if 'new' in change else 'D' -%}
        {%- set usual = {'action': action, 'table': table, 'ordinal': loop.index} -%}
        {{ make_change(**dict(usual, **change)) }}
        {{ 'union all' if not loop.last }}
    {%- endfor -%}
{% endmacro %}
