{# SQL text: what the changes of a row of compute_deltas add to a measure, before their sign. #}
{% macro measure_delta(declared, measure) -%}
    {%- set sums = waltally.list_values(declared) | selectattr('kind', 'equalto', 'sum')
        | map(attribute='column') | list -%}
    case
            when part in ({{ waltally.quote_literals(measure.of) }}){{ ' and is_measured_' ~ declared.measures.index(measure) if measure.where }}
                then change_count
                {%- for column in measure.columns %} * s{{ sums.index(column) }}{% endfor %}
            else 0
        end
{%- endmacro %}
