{# SQL: make the functions of a roll-up, and register it. cdc.apply calls one of them after the routine of an input,
   with the rows of the input that changed; `fill` makes the roll-up from all rows. Nothing is put on the inputs' tables
   but an index for each lookup. #}
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
{%- set adders = [] -%}
{%- for relation in relations %}
{%- set add = this.identifier ~ '__add_' ~ loop.index0 -%}
{%- do adders.append(own_for_text ~ waltally.quote_name(add, true) ~ takes) -%}
create or replace function {{ own ~ waltally.quote_name(add) }}(
    slot text,
    moved {{ staging }}.moved_row[],
    is_watched boolean
) returns {{ staging }}.outcome
language plpgsql security definer
{{ waltally.pin_routine('batch' if loop.first else 'few') }}
as $add$
#variable_conflict use_column
declare
    result {{ staging }}.outcome;
    {%- if not loop.first %}
    is_moved boolean;
    {%- endif %}
begin
    {{ waltally.add_fact_rows(resolved, derived, hidden) if loop.first
        else waltally.add_lookup_rows(resolved, derived, hidden, relation) }}
    return result;
end
$add$;
{%- endfor %}
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
    {{ waltally.apply_delta(resolved, derived, hidden, waltally.select_finer(resolved, resolved.fact)) }}
    {%- for table in hidden %}
    analyze {{ table }};
    {%- endfor %}
    return result;
end
$fill$;
select {{ staging }}.grant_to_caller(array[{{ waltally.quote_literals(adders + [fill_signature]) }}]);
{%- set declaration = dict(resolved, derived=derived, schema=this.schema, table=this.identifier) %}
{%- set made_of = declaration.pop('made_of') %}
select {{ staging }}.drop_former({{ key }}, array[{{ waltally.quote_literals(adders) }}]);
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
            {{ waltally.quote_literal(adders[loop.index0]) }}
        )::{{ staging }}.roll_up_input{{ ',' if not loop.last }}
        {%- endfor %}
    ],
    array[{{ waltally.quote_literals(hidden_for_text) }}]::text[],
    {{ flags.FULL_REFRESH or load_cached_relation(this) is none }},
    {{ staging }}.keep_value_tables(
        {{ key }},
        array[{{ waltally.quote_literals(hidden_for_text) }}]::text[],
        array[{{ waltally.quote_literals(hidden_types) }}]::text[]
    )
);
{% endmacro %}

{# A step: add what the groups of the finer fact are, less what they were. #}
{% macro add_fact_rows(resolved, derived, hidden) %}
    {%- set after = waltally.select_moved(resolved.fact_columns, 'after') -%}
    {%- set before = waltally.select_moved(resolved.fact_columns, 'before') -%}
    {{ waltally.apply_delta(
        resolved, derived, hidden,
        waltally.select_finer(resolved, after) ~ '\n    union all' ~ waltally.select_finer(resolved, before, '-'),
        is_told=true
    ) }}
{% endmacro %}

{# A step: move what was counted under the rows of a lookup that changed. #}
{% macro add_lookup_rows(resolved, derived, hidden, relation) %}
    {%- set slice = waltally.get_staging_schema() ~ '.slice_size()' -%}
    {%- set lookups = resolved.lookups | selectattr('relation', 'equalto', relation) | list -%}
    {%- set keys = lookups[0].by.keys() | list -%}
    {%- set columns = waltally.quote_names((keys + lookups | sum(attribute='taken', start=[])) | unique) -%}
    {#- Each is read once: nested loops go through them again and again. -#}
    {%- set changes -%}
with old_rows as materialized (select * from {{ waltally.select_moved(lookups[0].columns, 'before') }} as moved),

new_rows as materialized (select * from {{ waltally.select_moved(lookups[0].columns, 'after') }} as moved),

touched as materialized (
    select distinct {{ waltally.quote_names(keys) }}
    from (
        (select {{ columns }} from old_rows except select {{ columns }} from new_rows)
        union all
        (select {{ columns }} from new_rows except select {{ columns }} from old_rows)
    ) as changed
)
    {%- endset -%}
    {%- set source -%}
source as (
    {{ waltally.select_touched(resolved, relation, 'touched') }}
)
    {%- endset -%}
    {%- set as_before -%}
        {%- if lookups | length == 1 -%}
old_rows
        {%- else -%}
(
    select {{ columns }} from {{ relation }} as kept
    where not exists (
        select from new_rows as new
        where ({{ waltally.quote_names(keys, 'new') }}) = ({{ waltally.quote_names(keys, 'kept') }})
    )
    union all select {{ columns }} from old_rows as old
)
        {%- endif -%}
    {%- endset -%}
    {%- set replaced = {} -%}
    {%- for lookup in lookups -%}
        {%- do replaced.update({lookup.alias: as_before}) -%}
    {%- endfor -%}
    {{ changes }},

    {{ source }}

    select
        (select count(*) from touched) > {{ slice }} / 200
        or (select count(*) from (select from source limit {{ slice }} / 20 + 1) as moved) > {{ slice }} / 20,
        exists (select from source)
    into result.is_reset, is_moved;
    -- Where much has moved it is filled apart, so that the inputs do not wait for it.
    if result.is_reset or not is_moved then
        result.is_reset := is_moved;
        return result;
    end if;
    {{ waltally.forget_left_out(resolved, relation, '(' ~ changes ~ ' select * from touched)') }}
    {{ waltally.apply_delta(
        resolved, derived, hidden,
        changes ~ ',\n\n' ~ source ~ '\n' ~ waltally.select_finer(resolved, 'source')
            ~ '\n    union all' ~ waltally.select_finer(resolved, 'source', '-', replaced),
        is_told=true
    ) }}
{% endmacro %}
