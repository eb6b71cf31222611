{# SQL text: why nothing is known of a change; null where its images can be judged. For a row that says by has_old
   and has_new which images count, with the values of each image as read_fact_value gives them. Values are
   in arrays, because a function takes 100 arguments at most. #}
{% macro explain_rejection(declared, values) -%}
        {%- set places = {} -%}
        {%- for value in values -%}
            {%- do places.setdefault(value.column, []).append(loop.index0) -%}
        {%- endfor -%}
        case
            when problem is not null then problem
            {%- for image, says in [
                ('new', 'the row has no column '),
                ('old', 'the replica identity does not carry the old '),
            ] if values %}
            when has_{{ image }} and num_nulls(variadic array[{{ waltally.number_names(image ~ '_v', values | length) }}]) > 0
                then '{{ says }}' || array_to_string(array[
                    {%- for column, own in places.items() %}
                    case when {% for place in own %}{{ image }}_v{{ place }} is null{{ ' or ' if not loop.last }}{% endfor %} then {{ waltally.quote_literal(column) }} end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                ], ', ')
            {%- endfor %}
        end
{%- endmacro %}

{# SQL text: why the values of an image cannot be counted; null where they can. It is a rule of the image alone, so
   what an old image had added when it was new is known: nothing, where there is a reason. A seed has the same rule. #}
{% macro explain_bad_image(declared, values, image) -%}
        {%- set conditions -%}
            {%- set keys = values | rejectattr('kind', 'in', ['sum', 'condition', 'measure_condition']) | list %}
            {%- for value in keys %}
            when has_{{ image }} and {{ waltally.find_bad_value(value, image ~ "_v" ~ values.index(value)) }}
            {%- endfor %}
            {{- waltally.find_long_key(keys, values, image) }}
            {%- for value in values if value.conditions and value.conditions | selectattr('test', 'in', ['at_least', 'below']) | list %}
            {%- set bound = (value.conditions | selectattr('test', 'in', ['at_least', 'below']) | list)[0]['values'][0] %}
            when has_{{ image }} and {{ image }}_v{{ values.index(value) }} = '\"unreadable"'
                then {{ waltally.quote_literal('the value of ' ~ value.column ~ (
                    ' is not a number' if waltally.is_number(bound) else ' is not a date or a time'
                )) }}
            {%- endfor %}
            {%- for measure in declared.measures if measure.columns -%}
            {{- waltally.find_bad_sum(measure, values, image, declared.tables) }}
            {%- endfor %}
        {%- endset -%}
        {{ 'case' ~ conditions ~ '\n        end' if conditions | trim else 'null::text' }}
{%- endmacro %}
