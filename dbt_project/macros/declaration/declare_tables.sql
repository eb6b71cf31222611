{# The source tables: [{name, schema, table, deletes, columns}]. #}
{% macro declare_tables(tables) %}
    {%- do waltally.check_declaration([[
        tables is not mapping or not tables,
        'tables is ' ~ tables ~ "; use {name: 'schema.table'}, one or more",
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
                'table ' ~ name ~ ' is ' ~ given ~ "; use 'schema.table' or {'table': "
                ~ "'schema.table', 'deletes': 'ignore', 'columns': {name: column of this table}}",
            ],
        ]) -%}
        {%- set deletes = spec.get('deletes', 'count') -%}
        {%- set columns = spec.get('columns', {}) -%}
        {%- do waltally.check_keys('table ' ~ name, spec, ['table', 'deletes', 'columns']) -%}
        {%- do waltally.check_declaration([
            [
                deletes not in ['count', 'ignore'],
                'deletes of table ' ~ name ~ ' is ' ~ deletes ~ "; use 'count' or 'ignore'",
            ],
            [
                columns is not mapping,
                'columns of table ' ~ name ~ ' is ' ~ columns ~ '; use {name: column of this table}',
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

{# [schema, name] of a table such as public.orders or "Odd, name".orders, without the quotes. #}
{% macro split_table(text) %}
    {%- set part = '\\s*(?:"(?:[^"]|"")+"|[^\\s",.]+)\\s*' -%}
    {%- if not modules.re.fullmatch(part ~ '[.]' ~ part, text) -%}
        {%- do waltally.refuse_declaration(
            text ~ ' is not schema.table; a name with a dot, a comma or a blank goes in double quotes'
        ) -%}
    {%- endif -%}
    {%- set names = [] -%}
    {%- for name in modules.re.findall(part, text) | map('trim') -%}
        {%- set plain = name[1:-1].replace('""', '"') if name[0] == '"' else name -%}
        {%- do waltally.check_name('a table', plain) -%}
        {%- do names.append(plain) -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}

{# Let each table's mapping name the column that is read. A day may be mapped by its own name or by
   the name of the column that it is the day of. Refuse a mapping of a name that nothing reads. #}
{% macro name_columns(declared) %}
    {%- set read = (
        declared.dimensions | map(attribute='column') | select | list
        + declared.measures | map(attribute='columns') | sum(start=[])
        + declared.where | map(attribute='column') | list
        + declared.measures | map(attribute='where') | sum(start=[]) | map(attribute='column') | list
    ) | unique(case_sensitive=true) | list -%}
    {%- for table in declared.tables -%}
        {%- set columns = {} -%}
        {%- set named = 'columns of table ' ~ table.name ~ ' maps ' -%}
        {%- for name, column in table.columns.items() -%}
            {%- set days = declared.dimensions | selectattr('name', 'equalto', name)
                | map(attribute='column') | select | list -%}
            {%- set target = name if name in read else days | first if days else none -%}
            {%- do waltally.check_declaration([
                [
                    target is none,
                    named ~ name ~ ', which no dimension, sum or condition reads; use ' ~ read | join(', '),
                ],
                [
                    columns.get(target, column) != column,
                    named ~ target ~ ' to ' ~ columns.get(target) ~ ' and to ' ~ column ~ '; use one of them',
                ],
            ]) -%}
            {%- do columns.update({target: column}) -%}
        {%- endfor -%}
        {%- do table.update(columns=columns) -%}
    {%- endfor -%}
{% endmacro %}
