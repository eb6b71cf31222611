{# SQL: make the functions of a roll-up, and register it. cdc.apply calls `__add_N` after the routine of the input N, with
   the rows that changed there: it finds what they add, and `__merge` adds it. `__fill` makes the roll-up from all rows.
   Nothing is put on the inputs' tables but an index for each lookup. #}
{% macro write_roll_up(resolved, derived) %}
{%- set staging = waltally.get_staging_schema() -%}
{%- set key = waltally.quote_literal(waltally.get_model_key()) -%}
{%- set own = waltally.quote_name(this.schema) ~ '.' -%}
{%- set own_for_text = waltally.quote_name(this.schema, true) ~ '.' -%}
{%- set fill = this.identifier ~ '__fill' -%}
{%- set fill_signature = own_for_text ~ waltally.quote_name(fill, true) ~ '(text)' -%}
{%- set hidden, hidden_for_text, hidden_types = [], [], [] -%}
{%- for value in resolved['values'] -%}
    {%- do hidden.append(own ~ waltally.quote_name(this.identifier ~ '__values_' ~ loop.index0)) -%}
    {%- do hidden_for_text.append(own_for_text ~ waltally.quote_name(this.identifier ~ '__values_' ~ loop.index0, true)) -%}
    {%- do hidden_types.append(value.type ~ (' collate "C"' if value.type == 'text' else '')) -%}
{%- endfor -%}
{%- set relations = ([resolved.fact] + resolved.lookups | map(attribute='relation') | list) | unique | list -%}
{%- set takes = '(text, ' ~ waltally.get_staging_schema(true) ~ '.moved_row[], boolean)' -%}
{%- set merge = own ~ waltally.quote_name(this.identifier ~ '__merge') -%}
{%- set functions = [
    own_for_text ~ waltally.quote_name(this.identifier ~ '__merge', true)
    ~ '(' ~ waltally.get_staging_schema(true) ~ '.group_delta[], boolean)'
] -%}
-- Its caller is one of the functions below, which has set everything.
create or replace function {{ merge }}(delta {{ staging }}.group_delta[], is_watched boolean) returns {{ staging }}.outcome
language plpgsql
as $merge$
#variable_conflict use_column
declare
    result {{ staging }}.outcome;
begin
    {{ waltally.add_delta(resolved, derived, hidden, waltally.read_delta(resolved), is_told=true) }}
    return result;
end
$merge$;
{%- for relation in relations %}
{%- set add = this.identifier ~ '__add_' ~ loop.index0 -%}
{%- do functions.append(own_for_text ~ waltally.quote_name(add, true) ~ takes) -%}
create or replace function {{ own ~ waltally.quote_name(add) }}(
    slot text,
    moved {{ staging }}.moved_row[],
    is_watched boolean
) returns {{ staging }}.outcome
language plpgsql security definer
{{ waltally.pin_routine('few') }}
as $add$
#variable_conflict use_column
declare
    delta {{ staging }}.group_delta[];
    is_large boolean := false;
begin
    {{ waltally.find_fact_delta(resolved) if loop.first else waltally.find_lookup_delta(resolved, relation) }}
    -- Where much has moved it is filled apart, so that the inputs do not wait for it.
    if is_large then
        return (null, null, null, null, true, null)::{{ staging }}.outcome;
    elsif delta is null then
        return null;
    end if;
    return {{ merge }}(delta, $3);
end
$add$;
{%- endfor %}
{%- do functions.append(fill_signature) %}
create or replace function {{ own ~ waltally.quote_name(fill) }}(slot text) returns {{ staging }}.outcome
language plpgsql security definer
{{ waltally.pin_routine('whole') }}
as $fill$
#variable_conflict use_column
declare
    result {{ staging }}.outcome;
begin
    {%- for lookup in resolved.lookups %}
    {#- By which the rows are found that lie under a row of the lookup. -#}
    {%- for relation, columns in lookup.by.values() | groupby('relation') %}
    perform {{ staging }}.keep_index(
        {{ waltally.quote_literal(relation) }},
        array[{{ waltally.quote_literals(columns | map(attribute='column')) }}],
        array[{{ waltally.quote_literals(
            columns | rejectattr('alias', 'equalto', 'f') | selectattr('type', 'equalto', 'text') | map(attribute='column')
        ) }}]::text[]
    );
    {%- endfor %}
    {%- endfor %}
    perform {{ waltally.adapt_table(resolved, derived) }};
    delete from {{ waltally.name_table() }};
    {%- for table in hidden %}
    truncate {{ table }};
    {%- endfor %}
    delete from {{ waltally.name_table(ref('waltally', 'rejected_changes')) }} as old where old.fact = {{ key }};
    {{ waltally.add_delta(
        resolved, derived, hidden, waltally.read_all(resolved, is_listing=true), is_told=false,
        read_values=waltally.read_all(resolved, is_listing=false)
    ) }}
    {%- for table in hidden %}
    analyze {{ table }};
    {%- endfor %}
    return result;
end
$fill$;
select {{ staging }}.adopt_functions({{ key }}, array[{{ waltally.quote_literals(functions) }}]);
{%- set declaration = dict(resolved, derived=derived, schema=this.schema, table=this.identifier) %}
{%- set made_of = declaration.pop('made_of') %}
select {{ staging }}.install_roll_up(
    {{ key }},
    {{ waltally.quote_literal(model.name) }},
    {{ waltally.quote_literal(project_name) }},
    {{ waltally.quote_literal(tojson(declaration)) }},
    {{ waltally.quote_literal(fill_signature) }},
    array[{{ waltally.quote_literals(resolved.inputs) }}],
    array[
        {%- for name, declared in made_of.items() %}
        row(
            {{ key }},
            {{ waltally.quote_literal(name) }},
            {{ waltally.quote_literal(tojson(declared)) }},
            {{ waltally.quote_literal(functions[loop.index]) }}
        )::{{ staging }}.roll_up_input{{ ',' if not loop.last }}
        {%- endfor %}
    ],
    array[{{ waltally.quote_literals(functions) }}],
    array[{{ waltally.quote_literals(hidden_for_text) }}]::text[],
    array[{{ waltally.quote_literals(waltally.list_columns(resolved, derived)) }}],
    {{ flags.FULL_REFRESH or load_cached_relation(this) is none }},
    {{ staging }}.keep_value_tables(
        {{ key }},
        array[{{ waltally.quote_literals(hidden_for_text) }}]::text[],
        array[{{ waltally.quote_literals(hidden_types) }}]::text[]
    )
);
{% endmacro %}
