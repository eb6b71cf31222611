{# For a model that lists changes: a rebuild lists them anew. In the model's transaction, so readers
   see the old list until the new one is there. #}
{% macro empty_before_rebuild() %}
    {%- if load_cached_relation(this) -%}
        delete from {{ this }}
        where slot_name = '{{ slot_name() }}' and {{ is_rebuild() }}
    {%- endif -%}
{% endmacro %}
