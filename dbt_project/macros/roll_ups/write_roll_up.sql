{# SQL: the functions that keep a roll-up. Statement triggers of its inputs call the first ones, whoever writes
   there, in the writer's transaction; cdc.apply calls `fill`, which also makes the triggers.

   A trigger takes the roll-up's lock, so that what one input adds is seen by the trigger of the next. What it
   fails with is written down, and the roll-up is filled again later: an input never fails because of it. Only
   a lock that somebody holds stops the input, which is tried again. #}
{% macro write_roll_up(resolved, derived) %}
{%- set staging = waltally.get_staging_schema() -%}
{%- set key = waltally.quote_literal(waltally.get_model_key()) -%}
{%- set prefix = waltally.quote_name(this.schema) ~ '.' -%}
{%- set hidden = [] -%}
{%- for value in resolved['values'] -%}
    {%- do hidden.append(prefix ~ waltally.quote_name(this.identifier ~ '__values_' ~ loop.index0)) -%}
{%- endfor -%}
{%- set relations = [resolved.fact] + resolved.lookups | map(attribute='relation') | unique | list -%}
{%- for relation in relations %}
{%- set is_fact = loop.first -%}
create or replace function {{ prefix }}{{ waltally.quote_name(this.identifier ~ '__keep_' ~ loop.index0) }}() returns trigger
language plpgsql security definer
{{ waltally.pin_routine('trigger' if is_fact else 'few') }}
as $keep$
#variable_conflict use_column
declare
    message text;
    {%- if not is_fact %}
    touched_count bigint;
    moved_count bigint;
    {%- endif %}
    {%- for table in hidden %}
    changes_{{ loop.index0 }} {{ staging }}.value_change[];
    {%- endfor %}
begin
    if not {{ staging }}.is_kept({{ key }}) then
        return null;
    end if;
    begin
        -- Before anything is read: else two inputs that change at once would miss each other's rows.
        perform pg_advisory_xact_lock({{ staging }}.lock_key('model', {{ key }}));
        {%- for operation, before, after in [('INSERT', none, 'new_rows'), ('DELETE', 'old_rows', none), ('UPDATE', 'old_rows', 'new_rows')] %}
        {{ 'if' if loop.first else 'elsif' }} tg_op = '{{ operation }}' then
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
{%- endfor %}
create or replace function {{ prefix }}{{ waltally.quote_name(this.identifier ~ '__fill') }}(model text) returns void
language plpgsql security definer
{{ waltally.pin_routine('whole') }}
as $fill$
#variable_conflict use_column
begin
    lock table {{ relations | join(', ') }} in share row exclusive mode;
    perform pg_advisory_xact_lock({{ staging }}.lock_key('model', {{ key }}));
    {%- for relation in relations %}
    {%- set function = prefix ~ waltally.quote_name(this.identifier ~ '__keep_' ~ loop.index0) %}
    {%- for operation, rows in [('insert', 'new table as new_rows'), ('update', 'old table as old_rows new table as new_rows'), ('delete', 'old table as old_rows')] %}
    create or replace trigger {{ waltally.quote_name((this.identifier ~ '_' ~ operation)[:63]) }}
    after {{ operation }} on {{ relation }}
    referencing {{ rows }}
    for each statement execute function {{ function }}();
    -- Also in a session that replays another server's changes.
    alter table {{ relation }} enable always trigger {{ waltally.quote_name((this.identifier ~ '_' ~ operation)[:63]) }};
    {%- endfor %}
    {%- endfor %}
    {%- for relation, columns in waltally.list_searched(resolved) %}
    perform {{ staging }}.keep_index({{ waltally.quote_literal(relation) }}, array[{{ waltally.quote_literals(columns) }}]);
    {%- endfor %}
    {%- for table in hidden %}
    {%- set value = resolved['values'][loop.index0] %}
    drop table if exists {{ table }};
    create table {{ table }} (
        id uuid not null,
        value {{ value.type }}{{ ' collate "C"' if value.type == 'text' }} not null,
        group_count bigint not null,
        weight numeric not null,
        was_there boolean not null default false,
        primary key (id, value)
    );
    create index on {{ table }} (id) where group_count = 0;
    {%- endfor %}
    perform {{ waltally.adapt_table(resolved, derived) }};
    {{ waltally.fill_roll_up(resolved, derived, hidden) }}
end
$fill$;
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
    {%- set staging = waltally.get_staging_schema() -%}
    {%- set columns = [] -%}
    {%- set keys = [] -%}
    {%- set replaced = {} -%}
    {%- for lookup in resolved.lookups if lookup.relation == relation -%}
        {%- do keys.extend(lookup.by.keys()) -%}
        {%- do columns.extend(lookup.by.keys()) -%}
        {%- do columns.extend(lookup.taken) -%}
        {%- do replaced.update({lookup.alias: none}) -%}
    {%- endfor -%}
    {%- set keys = keys | unique | list -%}
    {%- set columns = columns | unique | join(', ') -%}
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
    {%- set touched = '(select distinct ' ~ keys | join(', ') ~ ' from ' ~ changed ~ ' as changed)' -%}
    {%- set source = '(' ~ waltally.list_touched_rows(resolved, relation, touched) ~ ')' -%}
    {%- set as_before -%}
(
    select kept.* from {{ relation }} as kept
    where not exists (
        select from {{ after }} as new
        where {% for key in keys %}{{ 'and ' if not loop.first }}new.{{ key }} = kept.{{ key }}{% endfor %}
    )
    {{ 'union all select old.* from ' ~ before ~ ' as old' if before }}
)
    {%- endset -%}
    {%- for alias in replaced -%}
        {%- do replaced.update({alias: (
            (before or '(select * from ' ~ relation ~ ' where false)') if replaced | length == 1
            else as_before if after
            else '(select * from ' ~ relation ~ ' union all select * from ' ~ before ~ ')'
        )}) -%}
    {%- endfor -%}
            touched_count := (select count(*) from {{ touched }} as touched);
            if touched_count = 0 then
                return null;
            end if;
            moved_count := (
                select count(*)
                from (select from {{ source }} as f limit {{ staging }}.slice_size() / 20 + 1) as moved
            );
            if moved_count = 0 then
                return null;
            elsif touched_count > {{ staging }}.slice_size() / 200 or moved_count > {{ staging }}.slice_size() / 20 then
                perform {{ staging }}.suspend_roll_up({{ waltally.quote_literal(waltally.get_model_key()) }}, null);
                return null;
            end if;
            {{ waltally.apply_delta(resolved, derived, hidden,
                waltally.select_finer(resolved, source) ~ '\n    union all' ~ waltally.select_finer(resolved, source, '-', replaced)) }}
{% endmacro %}

{# What the triggers of the lookups search the inputs by: [relation, columns], each once. #}
{% macro list_searched(resolved) %}
    {%- set found = [] -%}
    {%- for lookup in resolved.lookups -%}
        {%- for alias in lookup.by.values() | map(attribute='alias') | unique -%}
            {%- set relation = resolved.fact if alias == 'f'
                else (resolved.lookups | selectattr('alias', 'equalto', alias) | first).relation -%}
            {%- do found.append([relation, lookup.by.values() | selectattr('alias', 'equalto', alias) | map(attribute='column') | list]) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
