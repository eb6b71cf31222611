{# SQL text: why a change cannot be counted; null where it can. For a row that says by has_old and
   has_new which images count, with each image's values as read_image_value gives them. #}
{% macro explain_rejection(dimensions, sums) -%}
        {%- set columns = dimensions.keys() | list + sums -%}
        case
            when not is_json then 'the payload is not valid JSON'
            when is_undecodable then 'the text of the row does not fit the target''s encoding'
            when action is null or action not in ('I', 'U', 'D', 'T') then 'the action is not known'
            when source_table is null then 'the change names no table'
            when lacks_old then 'the replica identity carries no old row'
            {%- for image, says in [
                ('new', 'the row has no column '),
                ('old', 'the replica identity does not carry the old '),
            ] %}
            when has_{{ image }} and num_nulls({{ prefix_columns(image, columns) }}) > 0
                then '{{ says }}' || concat_ws(
                    ', ',
                    {%- for column in columns %}
                    case when {{ image }}_{{ column }} is null then '{{ column }}' end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )
            {%- endfor %}
            {%- for image in ['new', 'old'] %}
            {%- for column, type in dimensions.items() if type == 'uuid' %}
            when has_{{ image }} and {{ image }}_{{ column }}
                !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then 'the value of {{ column }} is not a uuid'
            {%- endfor %}
            -- An entry of the fact's index holds all dimensions in 2,700 bytes, or the build fails.
            {%- for column, type in dimensions.items() if type == 'text' %}
            when has_{{ image }} and octet_length({{ read_value_text(image ~ '_' ~ column) }}) > 1000
                then 'the value of {{ column }} is longer than 1000 bytes'
            {%- endfor %}
            {%- for column in sums %}
            when
                has_{{ image }}
                and case
                    when left({{ image }}_{{ column }}, 1) = '\'
                        then jsonb_typeof(substr({{ image }}_{{ column }}, 2)::jsonb)
                    else 'string'
                end not in ('number', 'null')
                then 'the value of {{ column }} is not a number'
            {%- endfor %}
            {%- endfor %}
        end
{%- endmacro %}
