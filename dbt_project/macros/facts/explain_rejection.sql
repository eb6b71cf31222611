{# SQL text: why a change cannot be counted; null where it can. For a row that says by has_old and
   has_new which images count, with the values of each image as read_fact_value gives them. #}
{% macro explain_rejection(declared, values) -%}
        {%- set firsts = {} -%}
        {%- for value in values -%}
            {%- do firsts.setdefault(value.column, loop.index0) -%}
        {%- endfor -%}
        case
            when not is_json then 'the payload is not valid JSON'
            when is_undecodable then 'the text of the row does not fit the target''s encoding'
            when action is null or action not in ('I', 'U', 'D', 'T') then 'the action is not known'
            when source_table is null then 'the change names no table'
            when lacks_old then 'the replica identity carries no old row'
            {%- for image, says in [
                ('new', 'the row has no column '),
                ('old', 'the replica identity does not carry the old '),
            ] if values %}
            when has_{{ image }} and num_nulls({{ waltally.number_names(image ~ '_v', values | length) }}) > 0
                then '{{ says }}' || concat_ws(
                    ', ',
                    {%- for column, place in firsts.items() %}
                    case when {{ image }}_v{{ place }} is null then {{ waltally.quote_literal(column) }} end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )
            {%- endfor %}
            {%- for image in ['new', 'old'] %}
            {%- for value in values if value.kind not in ['sum', 'condition'] %}
            when has_{{ image }} and {{ waltally.find_bad_value(value, image ~ "_v" ~ values.index(value)) }}
            {%- endfor %}
            {%- for measure in declared.measures if measure.kind == 'sum' %}
            {%- for value in values if value.kind == 'sum' and value.column == measure.column -%}
            {{- waltally.find_bad_sum(measure, image, '_v' ~ values.index(value), declared.tables) }}
            {%- endfor %}
            {%- endfor %}
            {%- endfor %}
        end
{%- endmacro %}
