{# SQL: the derived columns of the row `stored`. #}
{% macro compute_derived(declared, derived) -%}
    select {{ derived.values() | join(', ') }}
    from (
        select
            {%- for measure in declared.measures %}
            stored.{{ waltally.quote_name(measure.name) }}{{ ',' if not loop.last }}
            {%- endfor %}
    ) as measures
{%- endmacro %}
