{# SQL: make the functions that keep a roll-up, and register it. Statement triggers of its inputs call the first ones,
   whoever writes there, in the writer's transaction; cdc.apply calls `fill`, which also makes the triggers.

   A trigger takes the roll-up's lock, so that what one input adds is seen by the trigger of the next. What it
   fails with is written down, and the roll-up is filled again later: an input never fails because of it. Only
   a lock that somebody holds stops the input, which is tried again. #}
{% macro write_roll_up(resolved, derived) %}
{%- set staging = waltally.get_staging_schema() -%}
{%- set key = waltally.quote_literal(waltally.get_model_key()) -%}
{%- set own = waltally.quote_name(this.schema) ~ '.' -%}
{%- set fill = own ~ waltally.quote_name(this.identifier ~ '__fill') -%}
{%- set fill_signature = waltally.quote_name(this.schema, true) ~ '.' ~ waltally.quote_name(this.identifier ~ '__fill', true) ~ '(text)' -%}
{%- set hidden = [] -%}
{%- for value in resolved['values'] -%}
    {%- do hidden.append(own ~ waltally.quote_name(this.identifier ~ '__values_' ~ loop.index0)) -%}
{%- endfor -%}
{%- set keeps = {} -%}
{%- for relation in [resolved.fact] + resolved.lookups | map(attribute='relation') | unique | list -%}
    {%- do keeps.update({relation: own ~ waltally.quote_name(this.identifier ~ '__keep_' ~ loop.index0)}) -%}
{%- endfor -%}
{%- for relation, keep in keeps.items() %}
{%- set is_fact = relation == resolved.fact -%}
create or replace function {{ keep }}() returns trigger
language plpgsql security definer
{{ waltally.pin_routine('trigger' if is_fact else 'few') }}
as $keep$
#variable_conflict use_column
declare
    message text;
begin
    if not {{ staging }}.is_kept({{ key }}) then
        return null;
    end if;
    begin
        {%- for operation, before, after in [('INSERT', none, 'new_rows'), ('DELETE', 'old_rows', none), ('UPDATE', 'old_rows', 'new_rows')] %}
        {{ 'if' if loop.first else 'elsif' }} tg_op = '{{ operation }}' then
            if not exists (select from {{ after or before }}) then
                return null;
            end if;
            -- Before anything else is read: two inputs that change at once would miss each other's rows.
            perform pg_advisory_xact_lock({{ staging }}.lock_key('model', {{ key }}));
            {{ waltally.keep_after_fact(resolved, derived, hidden, before, after) if is_fact
                else waltally.keep_after_lookup(resolved, derived, hidden, relation, before, after) }}
        {%- endfor %}
        end if;
    exception
        when lock_not_available or deadlock_detected then
            raise;
        when others then
            get stacked diagnostics message = message_text;
            perform {{ staging }}.suspend_roll_up({{ key }}, message);
    end;
    return null;
end
$keep$;
revoke execute on function {{ keep }}() from public;
{%- endfor %}
create or replace function {{ fill }}(model text) returns void
language plpgsql security definer
{{ waltally.pin_routine('whole') }}
as $fill$
#variable_conflict use_column
begin
    lock table {{ keeps | join(', ') }} in share row exclusive mode;
    perform pg_advisory_xact_lock({{ staging }}.lock_key('model', {{ key }}));
    {%- for relation, keep in keeps.items() %}
    {%- for operation, rows in [('insert', 'new table as new_rows'), ('update', 'old table as old_rows new table as new_rows'), ('delete', 'old table as old_rows')] %}
    {%- set trigger = waltally.quote_name((this.identifier ~ '_' ~ operation)[:63]) %}
    create or replace trigger {{ trigger }}
    after {{ operation }} on {{ relation }}
    referencing {{ rows }}
    for each statement execute function {{ keep }}();
    -- Also in a session that replays another server's changes.
    alter table {{ relation }} enable always trigger {{ trigger }};
    {%- endfor %}
    {%- endfor %}
    {%- for lookup in resolved.lookups %}
    {#- By which a trigger finds what lies under a row of the lookup. -#}
    {%- for relation, columns in lookup.by.values() | groupby('relation') %}
    perform {{ staging }}.keep_index({{ waltally.quote_literal(relation) }}, array[{{ waltally.quote_literals(columns | map(attribute='column')) }}]);
    {%- endfor %}
    {%- endfor %}
    perform {{ waltally.adapt_table(resolved, derived) }};
    delete from {{ this }};
    {%- for table in hidden %}
    {%- set type = resolved['values'][loop.index0].type %}
    drop table if exists {{ table }};
    create table {{ table }} (
        id uuid not null,
        value {{ type }}{{ ' collate "C"' if type == 'text' }} not null,
        group_count bigint not null,
        weight numeric not null,
        primary key (id, value)
    );
    create index on {{ table }} (id) where group_count = 0;
    {%- endfor %}
    {{ waltally.apply_delta(resolved, derived, hidden, waltally.select_finer(resolved, resolved.fact)) }}
    {%- for table in hidden %}
    analyze {{ table }};
    {%- endfor %}
end
$fill$;
select {{ staging }}.grant_to_caller(array[{{ waltally.quote_literal(fill_signature) }}]);
select {{ staging }}.install_roll_up(
    {{ key }},
    {{ waltally.quote_literal(model.name) }},
    {{ waltally.quote_literal(project_name) }},
    {{ waltally.quote_literal(tojson(dict(resolved, derived=derived, schema=this.schema, table=this.identifier))) }},
    {{ waltally.quote_literal(fill_signature) }},
    array[{{ waltally.quote_literals(resolved.inputs) }}],
    {{ 3 * keeps | length }},
    {{ flags.FULL_REFRESH or load_cached_relation(this) is none }}
);
{% endmacro %}

{# A step of the trigger of the finer fact. #}
{% macro keep_after_fact(resolved, derived, hidden, before, after) %}
    {%- set parts = [] -%}
    {%- if after -%}{%- do parts.append(waltally.select_finer(resolved, after)) -%}{%- endif -%}
    {%- if before -%}{%- do parts.append(waltally.select_finer(resolved, before, '-')) -%}{%- endif -%}
    {{ waltally.apply_delta(resolved, derived, hidden, parts | join('\n    union all')) }}
{% endmacro %}

{# A step of the trigger of a lookup: move what was counted under the rows that changed. #}
{% macro keep_after_lookup(resolved, derived, hidden, relation, before, after) %}
    {%- set slice = waltally.get_staging_schema() ~ '.slice_size()' -%}
    {%- set lookups = resolved.lookups | selectattr('relation', 'equalto', relation) | list -%}
    {%- set keys = lookups[0].by.keys() | list -%}
    {%- set columns = waltally.quote_names((keys + lookups | sum(attribute='taken', start=[])) | unique) -%}
    {%- set changed -%}
        {%- if before and after -%}
(
    (select {{ columns }} from old_rows except select {{ columns }} from new_rows)
    union all
    (select {{ columns }} from new_rows except select {{ columns }} from old_rows)
)
        {%- else -%}
{{ before or after }}
        {%- endif -%}
    {%- endset -%}
    {%- set touched = '(select distinct ' ~ waltally.quote_names(keys) ~ ' from ' ~ changed ~ ' as changed)' -%}
    {%- set source = '(' ~ waltally.select_touched(resolved, relation, touched) ~ ')' -%}
    {%- set as_before -%}
        {%- if lookups | length == 1 -%}
{{ before or '(select * from ' ~ relation ~ ' where false)' }}
        {%- elif not after -%}
(select * from {{ relation }} union all select * from {{ before }})
        {%- else -%}
(
    select kept.* from {{ relation }} as kept
    where not exists (
        select from {{ after }} as new
        where ({{ waltally.quote_names(keys, 'new') }}) = ({{ waltally.quote_names(keys, 'kept') }})
    )
    {{ 'union all select old.* from ' ~ before ~ ' as old' if before }}
)
        {%- endif -%}
    {%- endset -%}
    {%- set replaced = {} -%}
    {%- for lookup in lookups -%}
        {%- do replaced.update({lookup.alias: as_before}) -%}
    {%- endfor -%}
            if not exists (select from {{ source }} as f) then
                return null;
            elsif
                -- Then it is filled apart, so that the inputs do not wait for it.
                (select count(*) from {{ touched }} as touched) > {{ slice }} / 200
                or (select count(*) from (select from {{ source }} as f limit {{ slice }} / 20 + 1) as moved) > {{ slice }} / 20
            then
                perform {{ waltally.get_staging_schema() }}.suspend_roll_up({{ waltally.quote_literal(waltally.get_model_key()) }}, null);
                return null;
            end if;
            {{ waltally.apply_delta(resolved, derived, hidden,
                waltally.select_finer(resolved, source) ~ '\n    union all' ~ waltally.select_finer(resolved, source, '-', replaced)) }}
{% endmacro %}
