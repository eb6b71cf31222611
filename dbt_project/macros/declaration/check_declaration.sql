{# Refuse what a model declares by the first check that finds it wrong. A check is [is it wrong?, sentence]. #}
{% macro check_declaration(checks) %}
    {%- for is_wrong, sentence in checks if is_wrong -%}
        {%- do waltally.refuse_declaration(sentence) -%}
    {%- endfor -%}
{% endmacro %}
