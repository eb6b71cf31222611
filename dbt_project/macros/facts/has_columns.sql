{# Whether the model's table has the declared columns already. Where it waits for its baseline it has the
   former ones, and a hook could not name the new ones. #}
{% macro has_columns(declared, derived) %}
    {%- set names = declared.dimensions | map(attribute='name') | list + derived.keys() | list
        + (declared.measures | map(attribute='name') | list if declared.kind != 'current_rows' else []) -%}
    {{ return(not names | reject('in', adapter.get_columns_in_relation(this) | map(attribute='name') | list) | list) }}
{% endmacro %}
