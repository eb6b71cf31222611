{# SQL text: why a change of a row cannot be applied; null where it can. An old image has to hold
   the key and no more; a new one may lack what has not changed. #}
{% macro explain_row_rejection(declared, values) -%}
        {%- set keys = values | selectattr('name', 'in', declared.key) | list -%}
        case
            when not is_json then 'the payload is not valid JSON'
            when is_undecodable then 'the text of the row does not fit the target''s encoding'
            when action is null or action not in ('I', 'U', 'D', 'T') then 'the action is not known'
            when source_table is null then 'the change names no table'
            when lacks_old then 'the replica identity carries no old row'
            {%- for condition, image, says, needed in [
                ("action = 'I' and has_new", 'new', 'the row has no column ', values),
                ("action = 'U' and has_new", 'new', 'the row has no column ', keys),
                ('has_old', 'old', 'the replica identity does not carry the old ', keys),
            ] %}
            when {{ condition }} and num_nulls(
                {%- for value in needed %}{{ image }}_c{{ value.place }}{{ ', ' if not loop.last }}{% endfor -%}
            ) > 0
                then '{{ says }}' || concat_ws(
                    ', ',
                    {%- for value in needed %}
                    case when {{ image }}_c{{ value.place }} is null then {{ waltally.quote_literal(value.column) }} end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )
            {%- endfor %}
            {%- for value in values %}
            when has_new and {{ waltally.find_bad_value(value, 'new_c' ~ value.place, value in keys) }}
            {%- endfor %}
            {%- for value in keys %}
            when has_old and {{ waltally.find_bad_value(value, 'old_c' ~ value.place) }}
            {%- endfor %}
        end
{%- endmacro %}
