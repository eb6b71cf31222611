{# SQL text: whether a condition is true of a text; null for one that cannot be compared with the bound. Null is
   not true, as in SQL's WHERE, but where a list of `in` has it. #}
{% macro meets_condition(condition, text) -%}
    {%- set staging = waltally.get_staging_schema() -%}
    {%- set bound = condition['values'] | first -%}
    {%- set listed = waltally.quote_literals(condition['values'] | reject('none')) -%}
    {%- set operator = '>=' if condition.test == 'at_least' else '<' -%}
    {%- if condition.test == 'is_null' -%}
        {{ text }} is {{ 'null' if condition.is_null else 'not null' }}
    {%- elif condition.test in ['in', 'not_in'] -%}
        {%- set of_null = condition.test == 'in' and none in condition['values'] -%}
        {#- A list of null alone is no list for SQL. -#}
        {%- set of_text = text ~ (' in (' if condition.test == 'in' else ' not in (') ~ listed ~ ')' if listed
            else 'false' if condition.test == 'in' else 'true' -%}
        case when {{ text }} is null then {{ 'true' if of_null else 'false' }} else {{ of_text }} end
    {%- elif waltally.is_number(bound) -%}
        case
                    when {{ text }} is null then false
                    when {{ staging }}.takes('numeric', {{ text }}) then ({{ text }})::numeric {{ operator }} {{ bound }}
                end
    {%- else -%}
        case
                    when {{ text }} is null then false
                    else {{ staging }}.time_order({{ text }}) collate "C" {{ operator }} {{ waltally.quote_literal(bound) }}
                end
    {%- endif -%}
{%- endmacro %}
