{# Check what a model says in current_rows() and return it in full, as a fact with one row in each
   group: its columns are the dimensions, and null is a value but in the key. A column may be the
   slot. #}
{% macro declare_current_rows(table, key, columns) %}
    {%- do waltally.check_declaration([
        [
            columns is not mapping or not columns,
            'columns is ' ~ columns ~ '; use {column: SQL type}, one or more',
        ],
        [table is not string, 'table is ' ~ table ~ "; use 'schema.table'"],
    ]) -%}
    {%- do waltally.check_declaration([[
        key is string or key is mapping or key is not iterable or not key or key | reject('in', columns) | list,
        'key is ' ~ key ~ '; use a list of one or more of the columns ' ~ columns.keys() | join(', '),
    ]]) -%}
    {%- do waltally.check_size('key', key, columns | reject('in', key) | list, '%__wanted',
        columns.items() | selectattr(0, 'in', key) | map(attribute=1) | list) -%}
    {%- set dimensions = [] -%}
    {%- for name, given in columns.items() -%}
        {%- do waltally.check_name('a column', name) -%}
        {%- do waltally.check_declaration([
            [
                given is mapping and given | list != ['from'],
                'column ' ~ name ~ ' is ' ~ given ~ "; use an SQL type or {'from': 'slot'}",
            ],
            [
                given is mapping and name not in key,
                'column ' ~ name ~ ' is the slot and not in the key; add it to the key, '
                ~ 'because two slots may have rows of the same key',
            ],
        ]) -%}
        {%- do dimensions.append(waltally.declare_dimension(
            name,
            given if given is mapping
            else {'type': given, 'nulls': 'leave_out' if name in key else 'count'}
        )) -%}
    {%- endfor -%}
    {%- do waltally.check_declaration([[
        not dimensions | selectattr('kind', 'equalto', 'column') | selectattr('name', 'in', key) | list,
        'key is ' ~ key ~ '; use a column of the table besides the slot',
    ]]) -%}
    {{ return({
        'version': 1,
        'kind': 'current_rows',
        'tables': waltally.declare_tables({'rows': table}),
        'dimensions': dimensions,
        'measures': [
            {'name': 'row_count', 'kind': 'count', 'columns': [], 'of': ['rows'], 'type': 'bigint', 'where': []}
        ],
        'where': [],
        'key': key | list,
    }) }}
{% endmacro %}
