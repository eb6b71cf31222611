{# SQL text: why nothing is known of a change of a row; null where its images can be judged. An old image has to
   hold the key and no more; a new one may lack what has not changed. #}
{% macro explain_row_rejection(declared, values) -%}
        {%- set keys = values | selectattr('name', 'in', declared.key) | list -%}
        case
            when problem is not null then problem
            {%- for condition, image, says, needed in [
                ("action = 'I' and has_new", 'new', 'the row has no column ', values),
                ("action = 'U' and has_new", 'new', 'the row has no column ', keys),
                ('has_old', 'old', 'the replica identity does not carry the old ', keys),
            ] %}
            when {{ condition }} and num_nulls(variadic array[
                {%- for value in needed %}{{ image }}_v{{ values.index(value) }}{{ ', ' if not loop.last }}{% endfor -%}
            ]) > 0
                then '{{ says }}' || array_to_string(array[
                    {%- for value in needed %}
                    case when {{ image }}_v{{ values.index(value) }} is null then {{ waltally.quote_literal(value.column) }} end
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                ], ', ')
            {%- endfor %}
        end
{%- endmacro %}

{# SQL text: why the model cannot hold a row, as its new image has it; null where it can. #}
{% macro explain_bad_row(declared, values) -%}
        {%- set keys = values | selectattr('name', 'in', declared.key) | list -%}
        case
            {%- for value in values %}
            when has_new and {{ waltally.find_bad_value(value, 'new_v' ~ values.index(value), value in keys) }}
            {%- endfor %}
            {{- waltally.find_long_key(keys, values, 'new') }}
        end
{%- endmacro %}

{# SQL text: why the model never had a row, as the key in its old image says; null where it may have it. #}
{% macro explain_bad_old_key(declared, values) -%}
        {%- set keys = values | selectattr('name', 'in', declared.key) | list -%}
        case
            {%- for value in keys %}
            when has_old and {{ waltally.find_bad_value(value, 'old_v' ~ values.index(value)) }}
            {%- endfor %}
            {{- waltally.find_long_key(keys, values, 'old') }}
        end
{%- endmacro %}
