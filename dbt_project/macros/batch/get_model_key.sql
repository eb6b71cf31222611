{# The model's name in model_watermark. It has the schema in it, so that two targets have a
   watermark each. #}
{% macro get_model_key(relation=this) -%}
    {{ relation.schema }}.{{ relation.identifier }}
{%- endmacro %}
