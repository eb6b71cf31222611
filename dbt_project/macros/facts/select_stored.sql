{# SQL: what the table holds, with its sign turned, as contributions: all of it, or for the measures of the
   tables that the CTE `truncates` names. #}
{% macro select_stored(declared, is_truncate) %}
    select
        {%- for dimension in declared.dimensions %}
        stored.{{ waltally.quote_name(dimension.name) }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        {% if not is_truncate -%}
        -stored.{{ waltally.quote_name(measure.name) }}
        {%- elif measure.of | length == 1 -%}
        case
            when exists (select from truncates where part in ({{ waltally.quote_literals(measure.of) }}))
                then -stored.{{ waltally.quote_name(measure.name) }}
            else 0
        end
        {%- else -%}
        0
        {%- endif %} as m{{ loop.index0 }},
        {%- endfor %}
        true as is_stored
    from {{ waltally.name_table() }} as stored
    where {{ 'exists (select from truncates)' if is_truncate else 'true' }}{{ waltally.write_slot_filter(declared, '$2', 'stored.') }}
{% endmacro %}
