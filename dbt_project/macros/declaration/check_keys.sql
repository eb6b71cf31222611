{# Refuse a key of a mapping that is not among the known ones. #}
{% macro check_keys(what, given, known) %}
    {%- for key in given if key not in known -%}
        {%- do waltally.refuse_declaration(what ~ ' has ' ~ key ~ '; it takes ' ~ known | join(', ')) -%}
    {%- endfor -%}
{% endmacro %}
