{# SQL: no rows, with the columns of a model's table. `types` has types of derived columns that are not those
   of their expressions: a contract's. #}
{% macro select_nothing(declared, derived, types={}) %}
select
    {%- if declared.kind != 'current_rows' %}
    null::uuid as id,
    {%- endif %}
    {%- for dimension in declared.dimensions %}
    null::{{ dimension.type }} as {{ waltally.quote_name(dimension.name) }}{{ ',' if not loop.last or declared.kind != 'current_rows' }}
    {%- endfor %}
    {%- if declared.kind != 'current_rows' %}
    {%- for column, expression in derived.items() %}
    {{ 'cast(' ~ expression ~ ' as ' ~ types[column] ~ ')' if column in types else expression }} as {{ waltally.quote_name(column) }},
    {%- endfor %}
    {%- for measure in declared.measures %}
    measures.{{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
    {%- endfor %}
from (
    select
        {%- for measure in declared.measures %}
        null::{{ measure.type }} as {{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
) as measures
    {%- endif %}
where false
{% endmacro %}
