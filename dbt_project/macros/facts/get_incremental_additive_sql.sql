{# The incremental strategy `additive`: add the batch's additive columns to the stored ones and
   compute the derived columns anew. It needs a unique index on the model's unique_key. A row that
   would stay as it is is not written, so that an empty batch writes nothing. #}
{% macro get_incremental_additive_sql(arg_dict) %}
    {%- set additive = config.get('meta').additive -%}
    {%- set derived = config.get('meta').derived -%}
    {%- set columns = arg_dict.dest_columns | map(attribute='quoted') | join(', ') -%}
    insert into {{ arg_dict.target_relation }} as stored ({{ columns }})
    select {{ columns }}
    from {{ arg_dict.temp_relation }}
    on conflict ({{ arg_dict.unique_key | join(', ') }}) do update
    set ({{ (additive + derived.keys() | list) | join(', ') }}) = (
        select {{ (additive + derived.values() | list) | join(', ') }}
        from (
            select
                {%- for column in additive %}
                stored.{{ column }} + excluded.{{ column }} as {{ column }}{{ ',' if not loop.last }}
                {%- endfor %}
        ) as total
    )
    where
        {% for column in additive %}excluded.{{ column }} <> 0 or {% endfor -%}
        {%- for column, expression in derived.items() %}
        stored.{{ column }} is distinct from (
            select {{ expression }}
            from (
                select
                    {%- for name in additive %}
                    stored.{{ name }}{{ ',' if not loop.last }}
                    {%- endfor %}
            ) as total
        ) or
        {%- endfor %} false
{% endmacro %}
