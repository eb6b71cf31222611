{# SQL text: why a change cannot be counted; null where it can. For a row that says by has_old and
   has_new which images count, with the values of each image as read_fact_value gives them. Values are
   in arrays, because a function takes 100 arguments at most. #}
{% macro explain_rejection(declared, values) -%}
        {%- set firsts = {} -%}
        {%- for value in values -%}
            {%- do firsts.setdefault(value.column, loop.index0) -%}
        {%- endfor -%}
        case
            when problem is not null then problem
            {%- for image, says in [
                ('new', 'the row has no column '),
                ('old', 'the replica identity does not carry the old '),
            ] if values %}
            when has_{{ image }} and num_nulls(variadic array[{{ waltally.number_names(image ~ '_v', values | length) }}]) > 0
                then '{{ says }}' || array_to_string(array[
                    {%- for column, place in firsts.items() %}
                    case when {{ image }}_v{{ place }} is null then {{ waltally.quote_literal(column) }} end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                ], ', ')
            {%- endfor %}
            {%- for image in ['new', 'old'] %}
            {%- for value in values if value.kind not in ['sum', 'condition'] %}
            when has_{{ image }} and {{ waltally.find_bad_value(value, image ~ "_v" ~ values.index(value)) }}
            {%- endfor %}
            {{- waltally.find_long_key(values | rejectattr('kind', 'in', ['sum', 'condition']) | list, values, image) }}
            {%- for measure in declared.measures if measure.kind == 'sum' %}
            {%- for value in values if value.kind == 'sum' and value.column == measure.column -%}
            {{- waltally.find_bad_sum(measure, image, '_v' ~ values.index(value), declared.tables) }}
            {%- endfor %}
            {%- endfor %}
            {%- endfor %}
        end
{%- endmacro %}
