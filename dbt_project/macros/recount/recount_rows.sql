{# SQL: the rows of a table that its current rows lack, and those that they have too many. #}
{% macro recount_rows(name, relation, declared) %}
{%- set table = declared.tables[0] -%}
{%- set source_table = waltally.name_source(table) -%}
select
    {{ waltally.quote_literal(name) }} as fact,
    'row_count' as measure,
    compared.contents as in_group,
    sum(compared.counted) as counted,
    sum(compared.recounted) as recounted
from (
    select
        row({{ waltally.quote_names(declared.dimensions | map(attribute='name')) }})::text as contents,
        1::numeric as counted,
        0::numeric as recounted
    from {{ relation }}

    union all

    select
        row(
            {%- for column in declared.dimensions %}
            {{ waltally.recount_text(waltally.quote_name(table.columns.get(column.name, column.name))) }}::{{ column.type }}{{ ',' if not loop.last }}
            {%- endfor %}
        )::text as contents,
        0::numeric as counted,
        1::numeric as recounted
    from {{ source_table }}
    where num_nulls({{ waltally.quote_names(declared.key) }}) = 0
) as compared
group by compared.contents
having sum(compared.counted) <> sum(compared.recounted)
{% endmacro %}
