{# Refuse a name that PostgreSQL would not keep as it is. #}
{% macro check_name(what, name) %}
    {%- if name is not string or not name or name.encode('utf-8') | length > 63
        or modules.re.search('[\\x00-\\x1f]', name) -%}
        {%- do waltally.refuse_declaration(
            what ~ ' is called ' ~ name ~ '; a name has 1 to 63 bytes and no control character'
        ) -%}
    {%- endif -%}
{% endmacro %}
