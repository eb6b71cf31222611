{# SQL: the arguments by which the staging schema's adapt_table gives the table the columns that the model declares.
   `former` is the model's key where rows may not go. A roll-up is filled again for a derived column too. #}
{% macro adapt_table(declared, derived, former=none) -%}
    {%- set types = {} -%}
    {%- for column in (model.columns.values() if config.get('contract').enforced else []) -%}
        {%- do types.update({column.name: column.data_type}) -%}
    {%- endfor -%}
    {{ waltally.get_staging_schema() }}.adapt_table(
        {{ waltally.quote_literal(this.include(database=false)) }}::regclass,
        {{ waltally.quote_literal(waltally.select_nothing(declared, derived, types)) }},
        array[{{ waltally.quote_literals(derived if not former or declared.kind != 'roll_up' else []) }}]::text[],
        {{ waltally.describe_key(declared) }},
        {{ waltally.quote_literal(former) if former else 'null' }}
    )
{%- endmacro %}
