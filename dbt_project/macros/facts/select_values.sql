{# SQL: the changes of a batch that concern a model, with the values of both images, old_v0, new_v0, ..., in
   the order of list_values, and the name that the model gives to the table.

   changes            a FROM item whose rows are `change`.
   table_nos, places  SQL arrays that say where the reader put the values; see installed_model. #}
{% macro select_values(declared, changes, table_nos, places) %}
    {%- set values = waltally.list_values(declared) -%}
    {%- set kept = ['action', 'commit_lsn', 'ordinal', 'is_cancelled', 'problem', 'change_count', 'last_lsn'] -%}
    {%- for table in declared.tables %}
    {%- set place = loop.index %}
    select
        {{ waltally.quote_literal(table.name) }} as part,
        {{ waltally.quote_names(kept, 'change') }}
        {%- for image in ['old', 'new'] %}
        {%- for value in values %},
        {% if value.parts and table.name not in value.parts -%}
        '\null'
        {%- else -%}
        change.{{ image }}_values[{{ places }}[{{ place }}][{{ loop.index }}]]
        {%- endif %} as {{ image }}_v{{ loop.index0 }}
        {%- endfor %}
        {%- endfor %}
    from {{ changes }} as change
    where change.table_no = {{ table_nos }}[{{ place }}]

    union all
    {% endfor %}
    select
        null as part,
        {{ waltally.quote_names(kept, 'change') }}
        {%- for image in ['old', 'new'] %}
        {%- for value in values %},
        null as {{ image }}_v{{ loop.index0 }}
        {%- endfor %}
        {%- endfor %}
    from {{ changes }} as change
    where change.table_no is null
{% endmacro %}
