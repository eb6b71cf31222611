{# A type as it is registered, for any of the names that PostgreSQL has for it. #}
{% macro name_type(type) %}
    {%- set plain = type | string | trim | lower -%}
    {%- set numeric = modules.re.fullmatch('(?:numeric|decimal) *[(] *([0-9]+) *(?:, *([0-9]+) *)?[)]', plain) -%}
    {{ return(
        'numeric(' ~ numeric[1] ~ ', ' ~ (numeric[2] or 0) ~ ')' if numeric
        else 'text' if modules.re.fullmatch('(varchar|character varying)( *[(] *[0-9]+ *[)])?', plain)
        else {
            'int2': 'smallint',
            'int': 'integer',
            'int4': 'integer',
            'int8': 'bigint',
            'bool': 'boolean',
            'decimal': 'numeric',
            'timestamp without time zone': 'timestamp',
            'timestamp with time zone': 'timestamptz',
        }.get(plain, plain)
    ) }}
{% endmacro %}

{# Whether a type is numeric(precision, scale), with no more decimals than digits. #}
{% macro is_numeric_type(type) %}
    {%- set found = modules.re.fullmatch('numeric[(]([0-9]+), ?([0-9]+)[)]', type | string) -%}
    {{ return(
        found is not none
        and 0 < found[1] | int <= 1000
        and found[2] | int <= found[1] | int
    ) }}
{% endmacro %}

{# Whether a text is a number as a declaration takes it. #}
{% macro is_number(text) %}
    {{ return(modules.re.fullmatch('-?[0-9]{1,100}([.][0-9]{1,100})?', text | string) is not none) }}
{% endmacro %}
