{# Refuse what a model declares by the first check that finds it wrong. A check is [is it wrong?, sentence]. #}
{% macro check_declaration(checks) %}
    {%- for is_wrong, sentence in checks if is_wrong -%}
        {%- do waltally.refuse_declaration(sentence) -%}
    {%- endfor -%}
{% endmacro %}

{# Stop dbt with one sentence about what a model declares. #}
{% macro refuse_declaration(sentence) %}
    {%- do exceptions.raise_dependency_error(waltally.escape_text(model.name ~ ': ' ~ sentence ~ '.')) -%}
{% endmacro %}

{# A text of data or a name as a person may see it: each character that would do more than stand
   there is an escape. Otherwise it could forge a line or command the terminal. #}
{% macro escape_text(text) -%}
    {%- set harmful = '([\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff])' -%}
    {%- for part in modules.re.split(harmful, text | string) -%}
        {{ part if loop.index is odd else part.encode('unicode_escape').decode() }}
    {%- endfor -%}
{%- endmacro %}

{# Refuse a key of a mapping that is not among the known ones. #}
{% macro check_keys(what, given, known) %}
    {%- for key in given if key not in known -%}
        {%- do waltally.refuse_declaration(what ~ ' has ' ~ key ~ '; use ' ~ known | join(', ')) -%}
    {%- endfor -%}
{% endmacro %}

{# Refuse a name that PostgreSQL would not keep as it is. #}
{% macro check_name(what, name) %}
    {%- set called = what ~ ' is called ' ~ name -%}
    {%- do waltally.check_declaration([
        [
            name is not string or not name or name.encode('utf-8') | length > 63 or waltally.escape_text(name) != name,
            called ~ '; a name has 1 to 63 bytes and no control character',
        ],
        [
            what != 'a table' and name in ['tableoid', 'cmax', 'xmax', 'cmin', 'xmin', 'ctid'],
            called ~ ', as one that every table of PostgreSQL has; use another name',
        ],
    ]) -%}
{% endmacro %}

{# Refuse names that cannot stand beside each other in one table, and derived columns that are no
   SQL. #}
{% macro check_names(declared, derived) %}
    {%- do waltally.check_declaration([
        [derived is not mapping, 'derived is ' ~ derived ~ '; use {column: SQL expression of the measures}'],
    ]) -%}
    {%- set keys = declared.dimensions | map(attribute='name') | list -%}
    {%- set others = declared.measures | map(attribute='name') | list + derived.keys() | list -%}
    {%- do waltally.check_size('dimensions', keys, others + ['id'], 'uix_%_dimensions',
        declared.dimensions | map(attribute='type') | list) -%}
    {%- set taken = ['id'] -%}
    {%- for name in keys + others -%}
        {%- do waltally.check_name('a column', name) -%}
        {%- do waltally.check_declaration([[
            name in taken,
            'two columns are called ' ~ name ~ '; id, dimensions, measures and derived columns '
            ~ "take a name each, and a table's column may have another: 'columns': {name: column}",
        ]]) -%}
        {%- do taken.append(name) -%}
    {%- endfor -%}
    {%- for name, expression in derived.items() if expression is not string -%}
        {%- do waltally.refuse_declaration(
            'derived ' ~ name ~ ' is ' ~ expression ~ '; use an SQL expression of the measures'
        ) -%}
    {%- endfor -%}
{% endmacro %}

{# Refuse a model whose table or index could not be made, or whose rows might not fit: a row fills a
   page of 8 kB at most, where a long value takes 18 bytes. `key` are the columns of its index,
   `columns` those of its table besides, `types` those of the key. #}
{% macro check_size(what, key, columns, longest, types) %}
    {%- set digits = [] -%}
    {%- for type in types if waltally.is_numeric_type(type) -%}
        {%- do digits.append(modules.re.findall('[0-9]+', type)[0] | int) -%}
    {%- endfor -%}
    {%- set long_name = longest | replace('%', model.name) -%}
    {%- do waltally.check_declaration([
        [
            model.resource_type == 'model' and long_name.encode('utf-8') | length > 63,
            "the model's name has more than " ~ (64 - longest | length) ~ ' bytes, and ' ~ long_name
            ~ ' would have more than 63; use a shorter name',
        ],
        [
            key | length > 32,
            what ~ ' has ' ~ key | length ~ ' columns; use 32 at most, as an index does',
        ],
        [
            digits | sum > 600,
            what ~ ' has numeric columns of ' ~ digits | sum ~ ' digits together; use 600 at most, '
            ~ 'because an index has no room for more, and text fits the rest',
        ],
        [
            key | length + columns | length > 400,
            'the model has ' ~ (key | length + columns | length) ~ ' columns; use 400 at most, '
            ~ 'because a row of more may not fit in a page',
        ],
    ]) -%}
{% endmacro %}

{# Refuse arguments that a macro of models does not know, and names in the others that lack their quotes. `others` are
   those that Jinja found no parameter for. #}
{% macro check_arguments(given, others) %}
    {%- for name in others -%}
        {%- do waltally.refuse_declaration('it says ' ~ name ~ '; use ' ~ given.keys() | join(', ')) -%}
    {%- endfor -%}
    {%- for name, value in given.items() -%}
        {%- do waltally.check_declaration([[value is undefined, 'it lacks ' ~ name]]) -%}
        {%- do waltally.check_quotes(name, value) -%}
    {%- endfor -%}
{% endmacro %}

{# Refuse a name without quotes: Jinja takes it for a variable, which is not there. #}
{% macro check_quotes(what, given) %}
    {%- if given is undefined -%}
        {%- do waltally.refuse_declaration(what ~ ' has ' ~ given.name ~ " without quotes; write '" ~ given.name ~ "'") -%}
    {%- elif given is mapping -%}
        {%- for name, value in given.items() -%}
            {%- do waltally.check_quotes(what, name) -%}
            {%- do waltally.check_quotes(what, value) -%}
        {%- endfor -%}
    {%- elif given is sequence and given is not string -%}
        {%- for value in given -%}{%- do waltally.check_quotes(what, value) -%}{%- endfor -%}
    {%- endif -%}
{% endmacro %}
