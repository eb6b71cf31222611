{# A hash of the expressions of the derived columns; empty where there are none. #}
{% macro hash_derived() -%}
    {%- set derived = model.config.meta.get('derived') -%}
    {{ local_md5(tojson(derived)) if derived }}
{%- endmacro %}
