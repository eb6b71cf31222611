{# SQL text: for the old and for the new image an array by the table that the change names; the caller
   writes its elements, for the columns that are read, the table and the image. #}
{% macro list_by_table(readables, name) -%}
    {%- for image in ['old', 'new'] %}
        case table_no
            {%- for readable in readables if readable['values'] %}
            {%- set columns = readable['values'] | map(attribute='column') | unique(case_sensitive=true) | list %}
            when {{ readables.index(readable) + 1 }} then array[
                {{- caller(columns, readable, image) }}
            ]
            {%- else %}
            when 0 then '{}'::text[]
            {%- endfor %}
        end as {{ image }}_{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
