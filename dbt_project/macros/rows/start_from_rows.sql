{# A step of the routine of current rows: make the table hold the rows of the baseline, none where the table
   is truncated after it. #}
{% macro start_from_rows(declared) %}
delete from {{ this }} where true{{ waltally.write_slot_filter(declared, '$2') }};
insert into {{ this }} ({{ waltally.quote_names(declared.dimensions | map(attribute='name')) }})
select
    {%- for column in declared.dimensions %}
    groups.dimensions[{{ loop.index }}]::{{ column.type }}{{ ',' if not loop.last }}
    {%- endfor %}
from {{ waltally.get_staging_schema() }}.baseline_group as groups
where
    groups.slot_name = $2
    and groups.fact_name = {{ waltally.quote_literal(model.name) }}
    and {{ waltally.quote_literal(declared.tables[0].schema ~ '.' ~ declared.tables[0].table) }} <> all (coalesce($6, '{}'));
{% endmacro %}
