{# SQL text: a dimension of a row of a source table, by PostgreSQL's own conversions. #}
{% macro recount_dimension(dimension, column, type) -%}
    {%- set quoted = waltally.quote_name(column) if column -%}
    {%- if dimension.kind == 'slot' -%}
        '{{ waltally.get_slot_name() }}'::text
    {%- elif dimension.kind == 'column' -%}
        {{ waltally.recount_text(quoted) }}::{{ dimension.type }}
    {%- else -%}
        {%- set moment = quoted -%}
        {%- if type == 'timestamp with time zone' -%}
            {%- set moment = quoted ~ ' at time zone ' ~ waltally.quote_literal(dimension.timezone) -%}
        {%- elif type != 'date' -%}
            {%- set moment = quoted ~ ' at time zone ' ~ waltally.quote_literal(dimension.column_timezone)
                ~ ' at time zone ' ~ waltally.quote_literal(dimension.timezone) -%}
        {%- endif -%}
        {{ "date_trunc('month', " ~ moment ~ ')' if dimension.kind == 'month_of' else '(' ~ moment ~ ')' }}::date
    {%- endif -%}
{%- endmacro %}
