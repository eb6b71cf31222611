{# SQL: add the measures of a batch to the stored ones and compute the derived columns anew. A row
   that would stay as it is is not written, so that an empty batch writes nothing. #}
{% macro add_batch(declared, derived, sql) %}
    {%- set measures = declared.measures | map(attribute='name') | list -%}
    {%- set keys = waltally.quote_names(declared.dimensions | map(attribute='name')) -%}
    {%- set computed = waltally.quote_names(derived.keys() | list + measures) -%}
    {%- set columns = 'id, ' ~ keys ~ ', ' ~ computed -%}
    insert into {{ this }} as stored ({{ columns }})
    select {{ columns }}
    from (
{{ sql }}
    ) as batch
    on conflict ({{ keys }}) do update
    set ({{ waltally.quote_names(measures + derived.keys() | list) }}) = (
        select {{ waltally.quote_names(measures) }}{{ ', ' ~ derived.values() | join(', ') if derived }}
        from (
            select
                {%- for measure in measures %}
                stored.{{ waltally.quote_name(measure) }} + excluded.{{ waltally.quote_name(measure) }} as {{ waltally.quote_name(measure) }}{{ ',' if not loop.last }}
                {%- endfor %}
        ) as total
    )
    where
        {% for measure in measures %}excluded.{{ waltally.quote_name(measure) }} <> 0 or {% endfor -%}
        {%- for column, expression in derived.items() %}
        stored.{{ waltally.quote_name(column) }} is distinct from (
            select {{ expression }}
            from (
                select
                    {%- for measure in measures %}
                    stored.{{ waltally.quote_name(measure) }}{{ ',' if not loop.last }}
                    {%- endfor %}
            ) as total
        ) or
        {%- endfor %} false
{% endmacro %}
