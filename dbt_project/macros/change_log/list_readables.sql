{# What the facts of this project read: [{schema, table, values, is_each, is_ignored}], by table. A value
   is {column} or {column, kind, ...} with what it is computed from; facts that need the same one share it.
   is_each: current rows need each change by itself. is_ignored: a fact ignores the table's deletes. #}
{% macro list_readables(declarations) %}
    {%- set found = {} -%}
    {%- for declared in declarations -%}
        {%- for table in declared.tables -%}
            {%- set readable = found.setdefault(table.schema ~ '.' ~ table.table, {
                'schema': table.schema, 'table': table.table, 'values': [],
            }) -%}
            {%- if declared.kind == 'current_rows' -%}{%- do readable.update(is_each=true) -%}{%- endif -%}
            {%- if table.deletes == 'ignore' -%}{%- do readable.update(is_ignored=true) -%}{%- endif -%}
            {%- for value in waltally.list_needs(declared, table)
                if value is not none and value not in readable['values'] -%}
                {%- do readable['values'].append(value) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set sorted = [] -%}
    {%- for name in found | sort -%}{%- do sorted.append(found[name]) -%}{%- endfor -%}
    {{ return(sorted) }}
{% endmacro %}
