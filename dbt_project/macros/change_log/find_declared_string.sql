{# SQL text: find_plain_string for a column of the declaration, which each table may call otherwise.
   #}
{% macro find_declared_string(image, declared, column) -%}
    {%- set names = waltally.list_column_names(declared, column) -%}
    {%- if names | length == 1 -%}
        {{ waltally.find_plain_string(image, names.keys() | first) }}
    {%- else -%}
    case
        {%- for name, parts in names.items() %}
        when changes.part in ({{ waltally.quote_literals(parts) }}) then {{ waltally.find_plain_string(image, name) }}
        {%- endfor %}
    end
    {%- endif -%}
{%- endmacro %}
