{# Refuse a column that a roll-up cannot take. #}
{% macro check_column(what, column, known) %}
    {%- if column not in known -%}
        {%- do waltally.refuse_declaration(what ~ ' is ' ~ column ~ '; it takes one of ' ~ known | join(', ')) -%}
    {%- endif -%}
{% endmacro %}
