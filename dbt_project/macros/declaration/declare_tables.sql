{# The source tables: [{name, schema, table, deletes, columns}]. #}
{% macro declare_tables(tables) %}
    {%- if tables is not mapping or not tables -%}
        {%- do waltally.refuse_declaration(
            "tables is " ~ tables ~ "; it takes {name: 'schema.table'}, one or more"
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for name, given in tables.items() -%}
        {%- set spec = {'table': given} if given is string else given -%}
        {%- if not modules.re.fullmatch('[a-z_][a-z0-9_]{0,62}', name) -%}
            {%- do waltally.refuse_declaration(
                'a table is called ' ~ name
                ~ '; the name has lower-case letters, digits and underscores'
            ) -%}
        {%- elif spec is not mapping or spec['table'] is not string -%}
            {%- do waltally.refuse_declaration(
                'table ' ~ name ~ ' is ' ~ given ~ "; it takes 'schema.table' or {'table': "
                ~ "'schema.table', 'deletes': 'ignore', 'columns': {name: column of this table}}"
            ) -%}
        {%- endif -%}
        {%- do waltally.refuse_unknown_keys('table ' ~ name, spec, ['table', 'deletes', 'columns']) -%}
        {%- set deletes = spec.get('deletes', 'count') -%}
        {%- set columns = spec.get('columns', {}) -%}
        {%- if deletes not in ['count', 'ignore'] -%}
            {%- do waltally.refuse_declaration(
                'deletes of table ' ~ name ~ ' is ' ~ deletes ~ "; it takes 'count' or 'ignore'"
            ) -%}
        {%- elif columns is not mapping -%}
            {%- do waltally.refuse_declaration(
                'columns of table ' ~ name ~ ' is ' ~ columns
                ~ '; it takes {name: column of this table}'
            ) -%}
        {%- endif -%}
        {%- for column in columns.values() -%}
            {%- do waltally.check_name('a column of table ' ~ name, column) -%}
        {%- endfor -%}
        {%- set schema, table = waltally.split_table(spec['table']) -%}
        {%- if found | selectattr('schema', 'equalto', schema)
            | selectattr('table', 'equalto', table) | list -%}
            {%- do waltally.refuse_declaration(
                spec['table'] ~ ' is there twice; a table feeds a fact under one name'
            ) -%}
        {%- endif -%}
        {%- do found.append({
            'name': name,
            'schema': schema,
            'table': table,
            'deletes': deletes,
            'columns': columns,
        }) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
