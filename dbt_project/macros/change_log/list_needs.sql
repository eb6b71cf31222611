{# The values that a fact reads of one of its tables, in the order of list_values; none for one that is
   not of this table. The columns are called as the table calls them. #}
{% macro list_needs(declared, table) %}
    {%- set needs = [] -%}
    {%- for value in waltally.list_values(declared) -%}
        {%- set need = {'column': table.columns.get(value.column, value.column)} -%}
        {%- if value.kind == 'period' -%}
            {%- do need.update(
                kind='period', unit=value.unit, timezone=value.timezone, column_timezone=value.column_timezone
            ) -%}
        {%- elif value.kind in ['path', 'bucket'] -%}
            {%- do need.update(kind=value.kind, path=value.path, bounds=value.bounds) -%}
        {%- elif value.conditions -%}
            {%- do need.update(kind='condition', conditions=[]) -%}
            {%- for condition in value.conditions -%}
                {%- do need.conditions.append({
                    'test': condition.test, 'values': condition['values'], 'is_null': condition.is_null
                }) -%}
            {%- endfor -%}
        {%- endif -%}
        {%- do needs.append(none if value.parts and table.name not in value.parts else need) -%}
    {%- endfor -%}
    {{ return(needs) }}
{% endmacro %}
