{# SQL: make the model's routine, the delta rules of a fact and the project's reader, let the owner of cdc.apply alone
   execute what it calls, and register it. #}
{% macro install_functions(declared, derived) %}
{%- set staging = waltally.get_staging_schema() -%}
{%- set declarations = graph.nodes.values() | map(attribute='config') | map(attribute='meta', default={})
    | selectattr('waltally', 'defined') | map(attribute='waltally') | list -%}
{%- set readables = waltally.list_readables(declarations) -%}
{%- set readers = ref('waltally', 'rejected_changes').schema -%}
{%- set reader_name = 'read_changes_of_' ~ project_name[:40] -%}
{%- set routine = waltally.quote_name(this.schema) ~ '.' ~ waltally.quote_name(model.name ~ '__apply') -%}
{%- set deltas = waltally.quote_name(this.schema) ~ '.' ~ waltally.quote_name(model.name ~ '__deltas') -%}
{%- set reader = waltally.quote_name(readers) ~ '.' ~ waltally.quote_name(reader_name) -%}
{%- set routine_signature = waltally.quote_name(this.schema, true) ~ '.' ~ waltally.quote_name(model.name ~ '__apply', true)
    ~ '(text, text, ' ~ waltally.get_staging_schema(true) ~ '.change[], integer[], integer[], text[], boolean)' -%}
{%- set functions = [routine_signature] -%}
{%- if declared.kind == 'fact' -%}
    {%- do functions.append(waltally.quote_name(this.schema, true) ~ '.' ~ waltally.quote_name(model.name ~ '__deltas', true)
        ~ '(text, ' ~ waltally.get_staging_schema(true) ~ '.change[], integer[], integer[])') -%}
{%- endif -%}
{%- set reader_signature = waltally.quote_name(readers, true) ~ '.' ~ waltally.quote_name(reader_name, true)
    ~ '(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean)' -%}
{%- set needs = [] -%}
{%- for table in declared.tables -%}
    {%- do needs.append([table.schema ~ '.' ~ table.table, waltally.list_needs(declared, table)]) -%}
{%- endfor -%}
{%- set gives = [] -%}
{%- for readable in readables -%}
    {%- do gives.append([readable.schema ~ '.' ~ readable.table, readable['values']]) -%}
{%- endfor -%}
-- Two builds at once may make the reader.
select pg_advisory_xact_lock({{ staging }}.lock_key('reader', {{ waltally.quote_literal(reader) }}));
{{ waltally.write_reader(reader, readables) }};
{%- if declared.kind == 'fact' %}
{{ waltally.write_deltas(deltas, declared) }};
{%- endif %}
{{ waltally.write_routine(routine, declared, derived, deltas) }};
select {{ staging }}.adopt_functions(
    {{ waltally.quote_literal(waltally.get_model_key()) }}, array[{{ waltally.quote_literals(functions) }}]
);
select {{ staging }}.adopt_functions(
    {{ waltally.quote_literal(reader_signature) }}, array[{{ waltally.quote_literal(reader_signature) }}]
);
select {{ staging }}.install_model(
    slots.slot_name,
    {{ waltally.quote_literal(waltally.get_model_key()) }},
    {{ waltally.quote_literal(model.name) }},
    {{ waltally.quote_literal(tojson(declared)) }},
    {{ waltally.quote_literal(routine_signature) }},
    {{ waltally.quote_literal(reader_signature) }},
    {{ waltally.quote_literal(tojson(needs)) }},
    {{ waltally.quote_literal(tojson(gives)) }},
    {{ flags.FULL_REFRESH or load_cached_relation(this) is none }},
    {{ waltally.quote_literal(config.get('meta').engine) }},
    array[{{ waltally.quote_literals(functions) }}],
    array[{{ waltally.quote_literals(waltally.list_columns(declared, derived)) }}]
)
from (
    select {{ waltally.quote_literal(waltally.get_slot_name()) }} as slot_name
    {%- if load_cached_relation(this) is none %}
    -- The rows of all slots went with a table that was dropped: each starts from its baseline.
    union
    select installed.slot_name
    from {{ staging }}.installed_model as installed
    where installed.model_name = {{ waltally.quote_literal(waltally.get_model_key()) }}
    {%- endif %}
) as slots;
{% endmacro %}

{# The names of a table's columns, but the id. #}
{% macro list_columns(declared, derived) %}
    {%- set measures = declared.measures if declared.kind != 'current_rows' else [] -%}
    {{ return((declared.dimensions + measures) | map(attribute='name') | list + derived | list) }}
{% endmacro %}
