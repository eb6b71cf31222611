{# SQL text: what a column of an image, as read_batch finds it, is for a fact: a period in place of a
   moment, the lower bound of a bucket in place of a number, what is at a path in place of a document, true or
   false in place of what conditions ask about. Null where the image lacks the column. A text that cannot be
   read so becomes `\"unreadable"`: explain_rejection finds it. #}
{% macro read_fact_value(value, image) -%}
    {%- if value.kind == 'period' -%}
        case
            when {{ image }} is null or {{ image }} = '\null' then {{ image }}
            else coalesce(
                {{ waltally.get_staging_schema() }}.period_of(
                    {{ waltally.read_value_text(image) }},
                    {{ waltally.quote_literal(value.column_timezone) }},
                    {{ waltally.quote_literal(value.timezone) }},
                    {{ waltally.quote_literal(value.unit) }}
                ),
                '\"unreadable"'
            )
        end
    {%- elif value.kind == 'path' -%}
        case
            when {{ image }} is null or {{ image }} = '\null' then {{ image }}
            else {{ waltally.get_staging_schema() }}.value_at(
                {{ waltally.read_value_text(image) }}, array[{{ waltally.quote_literals(value.path) }}]
            )
        end
    {%- elif value.kind == 'bucket' -%}
        case
            when {{ image }} is null or {{ image }} = '\null' then {{ image }}
            when {{ waltally.get_staging_schema() }}.takes('numeric', {{ waltally.read_value_text(image) }})
                then coalesce((array[{{ waltally.quote_literals(value.bounds) }}])[nullif(width_bucket(
                    ({{ waltally.read_value_text(image) }})::numeric, array[{{ value.bounds | join(', ') }}]::numeric[]
                ), 0)], '\null')
            else '\"unreadable"'
        end
    {%- elif value.kind == 'condition' -%}
        case
            when {{ image }} is null then null
            else coalesce((
                {%- for condition in value.conditions %}
                {{ 'and ' if not loop.first }}{{ waltally.meets_condition(condition, waltally.read_value_text(image)) }}
                {%- endfor %}
            )::text, '\"unreadable"')
        end
    {%- else -%}
        {{ image }}
    {%- endif -%}
{%- endmacro %}
