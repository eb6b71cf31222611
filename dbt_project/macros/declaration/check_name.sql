{# Refuse a name that PostgreSQL would not keep as it is. #}
{% macro check_name(what, name) %}
    {%- if name is not string or not name or name.encode('utf-8') | length > 63
        or waltally.escape_text(name) != name -%}
        {%- do waltally.refuse_declaration(
            what ~ ' is called ' ~ name ~ '; a name has 1 to 63 bytes and no control character'
        ) -%}
    {%- elif name in ['tableoid', 'cmax', 'xmax', 'cmin', 'xmin', 'ctid'] and what != 'a table' -%}
        {%- do waltally.refuse_declaration(
            what ~ ' is called ' ~ name ~ ', as one that every table of PostgreSQL has; it takes another name'
        ) -%}
    {%- endif -%}
{% endmacro %}
