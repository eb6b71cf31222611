{# Check what a model says in current_rows() and return it in full, as a fact with one row in each
   group: its columns are the dimensions, and null is a value but in the key. #}
{% macro declare_current_rows(table, key, columns) %}
    {%- if columns is not mapping or not columns -%}
        {%- do waltally.refuse_declaration(
            'columns is ' ~ columns ~ '; it takes {column: SQL type}, one or more'
        ) -%}
    {%- elif table is not string -%}
        {%- do waltally.refuse_declaration('table is ' ~ table ~ "; it takes 'schema.table'") -%}
    {%- elif key is string or key is mapping or key is not iterable or not key
        or key | reject('in', columns) | list -%}
        {%- do waltally.refuse_declaration(
            'key is ' ~ key ~ '; it takes a list of one or more of the columns '
            ~ columns.keys() | join(', ')
        ) -%}
    {%- endif -%}
    {%- set dimensions = [] -%}
    {%- for name, type in columns.items() -%}
        {%- do waltally.check_name('a column', name) -%}
        {%- if not waltally.is_dimension_type(type) -%}
            {%- do waltally.refuse_declaration(
                'column ' ~ name ~ ' is of type ' ~ type ~ '; it takes uuid, text, boolean, smallint, '
                ~ 'integer, bigint, date, timestamp, timestamptz or numeric(p, s), and text fits the rest'
            ) -%}
        {%- endif -%}
        {%- do dimensions.append(waltally.declare_dimension(
            name, {'type': type, 'nulls': 'leave_out' if name in key else 'count'}
        )) -%}
    {%- endfor -%}
    {{ return({
        'version': 1,
        'kind': 'current_rows',
        'tables': waltally.declare_tables({'rows': table}),
        'dimensions': dimensions,
        'measures': [
            {'name': 'row_count', 'kind': 'count', 'column': none, 'of': ['rows'], 'type': 'bigint'}
        ],
        'where': [],
        'key': key | list,
    }) }}
{% endmacro %}
