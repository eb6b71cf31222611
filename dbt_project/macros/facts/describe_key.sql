{# SQL: the name of the constraint by which a batch finds what is stored, whether it is the primary key, its
   columns, and those of the table that are never null. #}
{% macro describe_key(declared) -%}
    {%- set is_fact = declared.kind != 'current_rows' -%}
    {%- set columns = declared.dimensions + (declared.measures if declared.kind == 'fact' else []) -%}
    {{ waltally.quote_literal('uix_' ~ this.identifier ~ '_dimensions' if is_fact else this.identifier ~ '_pkey') }},
        {{ (not is_fact) | lower }},
        array[{{ waltally.quote_literals(declared.dimensions | map(attribute='name') if is_fact else declared.key) }}],
        array[{{ waltally.quote_literals(columns | rejectattr('nulls', 'equalto', 'count') | map(attribute='name')) }}]::text[]
{%- endmacro %}
