{# A step of bound_batch, where other columns make all rows go: wait while another slot could not
   put its rows in again. #}
{% macro find_unready_slot() -%}
select
                format('it gets other columns, and slot %s is not set up and seeded for them', other.slot_name)
            into waits
            from {{ source('cdc', 'model_watermark') }} as other
            left join {{ source('cdc', 'fact') }} as registered
                on
                    registered.slot_name = other.slot_name
                    and registered.fact_name = {{ waltally.quote_literal(model.name) }}
                    and registered.declaration = compiled
            left join {{ source('cdc', 'baseline') }} as counted
                on
                    counted.slot_name = other.slot_name
                    and counted.fact_name = registered.fact_name
                    and counted.declaration = compiled
            where
                other.model_name = model
                and other.slot_name <> '{{ waltally.get_slot_name() }}'
                and counted.slot_name is null
            order by other.slot_name
            limit 1;
{%- endmacro %}
