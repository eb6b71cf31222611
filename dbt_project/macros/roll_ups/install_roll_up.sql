{# SQL: make the functions of a roll-up and register it; cdc.apply fills it where that is due. #}
{% macro install_roll_up(resolved, derived) %}
{%- set staging = waltally.get_staging_schema() -%}
{%- set prefix = waltally.quote_name(this.schema) ~ '.' -%}
{%- set fill = prefix ~ waltally.quote_name(this.identifier ~ '__fill') ~ '(text)' -%}
{%- set keeps = [] -%}
{%- for relation in [resolved.fact] + resolved.lookups | map(attribute='relation') | unique | list -%}
    {%- do keeps.append(prefix ~ waltally.quote_name(this.identifier ~ '__keep_' ~ loop.index0) ~ '()') -%}
{%- endfor -%}
{{ waltally.write_roll_up(resolved, derived) }}
{%- for keep in keeps %}
revoke execute on function {{ keep }} from public;
{%- endfor %}
select {{ staging }}.grant_to_caller(array[{{ waltally.quote_literal(fill) }}]);
select {{ staging }}.install_roll_up(
    {{ waltally.quote_literal(waltally.get_model_key()) }},
    {{ waltally.quote_literal(model.name) }},
    {{ waltally.quote_literal(project_name) }},
    {{ waltally.quote_literal(tojson(dict(resolved, derived=derived, schema=this.schema, table=this.identifier))) }},
    {{ waltally.quote_literal(fill) }},
    array[{{ waltally.quote_literals(resolved.inputs) }}],
    {{ 3 * keeps | length }},
    {{ flags.FULL_REFRESH or load_cached_relation(this) is none }}
);
{% endmacro %}
