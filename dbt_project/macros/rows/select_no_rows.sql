{# SQL: no rows, with the columns of a model's current rows. #}
{% macro select_no_rows(declared) %}
    select
        {%- for column in declared.dimensions %}
        null::{{ column.type }} as {{ waltally.quote_name(column.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    where false
{% endmacro %}
