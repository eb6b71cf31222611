{# SQL: the changes of a batch that concern a model, with the values of both images, old_v0, new_v0, ..., in
   the order of list_values, and the name that the model gives to the table.

   changes            a FROM item whose rows are `change`.
   table_nos, places  SQL arrays that say where the reader put the values; see installed_model. #}
{% macro select_values(declared, changes, table_nos, places) %}
    {%- set values = waltally.list_values(declared) -%}
    {%- set kept = ['action', 'commit_lsn', 'ordinal', 'is_cancelled', 'problem', 'change_count', 'last_lsn'] -%}
    select
        parts.part,
        {{ waltally.quote_names(kept, 'change') }}
        {%- for image in ['old', 'new'] %}
        {%- for value in values %}
        {%- set text = 'change.' ~ image ~ '_values[' ~ places ~ '[parts.place][' ~ loop.index ~ ']]' %},
        {% if value.parts -%}
        case when parts.part not in ({{ waltally.quote_literals(value.parts) }}) then '\null' else {{ text }} end
        {%- else -%}
        {{ text }}
        {%- endif %} as {{ image }}_v{{ loop.index0 }}
        {%- endfor %}
        {%- endfor %}
    from {{ changes }} as change
    left join (
        values
        {%- for table in declared.tables %}
        ({{ loop.index }}, {{ waltally.quote_literal(table.name) }}){{ ',' if not loop.last }}
        {%- endfor %}
    ) as parts (place, part) on change.table_no = {{ table_nos }}[parts.place]
    where change.table_no is null or parts.part is not null
{% endmacro %}
