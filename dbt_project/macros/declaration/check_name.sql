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
            called ~ ', as one that every table of PostgreSQL has; it takes another name',
        ],
    ]) -%}
{% endmacro %}
