{# The source tables: [{name, schema, table, deletes, columns}]. #}
{% macro declare_tables(tables) %}
    {%- do waltally.check_declaration([[
        tables is not mapping or not tables,
        'tables is ' ~ tables ~ "; it takes {name: 'schema.table'}, one or more",
    ]]) -%}
    {%- set declared = [] -%}
    {%- for name, given in tables.items() -%}
        {%- set spec = {'table': given} if given is string else given -%}
        {%- do waltally.check_declaration([
            [
                not modules.re.fullmatch('[a-z_][a-z0-9_]{0,62}', name),
                'a table is called ' ~ name ~ '; the name has lower-case letters, digits and underscores',
            ],
            [
                spec is not mapping or spec['table'] is not string,
                'table ' ~ name ~ ' is ' ~ given ~ "; it takes 'schema.table' or {'table': "
                ~ "'schema.table', 'deletes': 'ignore', 'columns': {name: column of this table}}",
            ],
        ]) -%}
        {%- set deletes = spec.get('deletes', 'count') -%}
        {%- set columns = spec.get('columns', {}) -%}
        {%- do waltally.check_keys('table ' ~ name, spec, ['table', 'deletes', 'columns']) -%}
        {%- do waltally.check_declaration([
            [
                deletes not in ['count', 'ignore'],
                'deletes of table ' ~ name ~ ' is ' ~ deletes ~ "; it takes 'count' or 'ignore'",
            ],
            [
                columns is not mapping,
                'columns of table ' ~ name ~ ' is ' ~ columns ~ '; it takes {name: column of this table}',
            ],
        ]) -%}
        {%- for column in columns.values() -%}
            {%- do waltally.check_name('a column of table ' ~ name, column) -%}
        {%- endfor -%}
        {%- set schema, table = waltally.split_table(spec['table']) -%}
        {%- do waltally.check_declaration([[
            declared | selectattr('schema', 'equalto', schema) | selectattr('table', 'equalto', table) | list,
            spec['table'] ~ ' is there twice; a table feeds a fact under one name',
        ]]) -%}
        {%- do declared.append(
            {'name': name, 'schema': schema, 'table': table, 'deletes': deletes, 'columns': columns}
        ) -%}
    {%- endfor -%}
    {{ return(declared) }}
{% endmacro %}
