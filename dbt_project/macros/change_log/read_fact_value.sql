{# SQL text: what a column of an image, as read_image_value gives it, is for a fact: a day in place of a
   moment, true or false in place of what conditions ask about. Null where the image lacks the column. A
   text that is no moment becomes one that is no value: explain_rejection finds it. #}
{% macro read_fact_value(value, image) -%}
    {%- if value.kind in ['date_of', 'month_of'] -%}
        case
            when {{ image }} is null or {{ waltally.is_json_null(image) }} then {{ image }}
            else coalesce(
                {{ waltally.get_staging_schema() }}.day_of(
                    {{ waltally.read_value_text(image) }},
                    {{ waltally.quote_literal(value.column_timezone) }},
                    {{ waltally.quote_literal(value.timezone) }},
                    {{ value.kind == 'month_of' }}
                ),
                '\no day'
            )
        end
    {%- elif value.kind == 'condition' -%}
        case
            when {{ image }} is null then null
            else coalesce(
                {%- for condition in value.conditions %}
                {{ 'and ' if not loop.first }}{{ waltally.read_value_text(image) }}
                {%- if condition.test == 'is_null' %} is {{ 'null' if condition.is_null else 'not null' }}
                {%- else %} {{ 'in' if condition.test == 'in' else 'not in' }} ({{ waltally.quote_literals(condition['values']) }})
                {%- endif -%}
                {%- endfor -%}, false
            )::text
        end
    {%- else -%}
        {{ image }}
    {%- endif -%}
{%- endmacro %}
