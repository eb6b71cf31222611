{# SQL: what rows of the finer fact stand for in the roll-up: its group as d0, d1, ... and id, the values of
   min, max, distinct and percentile as v0, v1, ..., what is summed as s0, s1, ..., whether the group is there
   and what it weighs. `source` is a query's FROM item of rows of the fact, `replaced` holds FROM items for
   lookups: the rows that were there before. A row whose texts fit into no index has the reason, and is left out. #}
{% macro select_finer(resolved, source, sign='', replaced={}) %}
    select
        {%- for dimension in resolved.dimensions %}
        {{ dimension.sql }} as d{{ loop.index0 }},
        {%- endfor %}
        -- The same group has the same id, however often the roll-up is filled.
        md5(row({{ resolved.dimensions | map(attribute='sql') | join(', ') }})::text)::uuid as id,
        {%- for value in resolved['values'] %}
        {{ value.sql }} as v{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in resolved.measures if measure.kind == 'sum' %}
        {{ sign }}{{ measure.sql }} as s{{ loop.index0 }},
        {%- endfor %}
        {{ sign }}({{ resolved.present }} <> 0)::integer as group_count,
        {{ sign }}{{ resolved.present }} as weight
        {%- set reason = waltally.explain_long(resolved) %}
        {%- if reason %},
        {{ reason }} as reason,
        {{ 'null' if sign else waltally.name_parents(resolved) }}::jsonb as parents
        {%- endif %}
    from {{ source }} as f
    {{- waltally.join_lookups(resolved, replaced) }}
{%- endmacro %}

{# SQL: the lookups of rows f of the fact, each found by its key. #}
{% macro join_lookups(resolved, replaced={}) %}
    {%- for lookup in resolved.lookups %}
    left join {{ replaced.get(lookup.alias, lookup.relation) }} as {{ lookup.alias }}
        on
            {%- for key, by in lookup.by.items() %}
            {{ 'and ' if not loop.first }}{{ lookup.alias }}.{{ waltally.quote_name(key) }} = {{ by.sql }}
            {%- endfor %}
    {%- endfor %}
{%- endmacro %}

{# SQL text: which text of a row keeps it out of the roll-up's indexes, in the words and by the limits of a fact; null
   where none does. Nothing where no text comes from a lookup: the fact has refused its long ones itself. #}
{% macro explain_long(resolved) %}
    {%- set texts = (resolved.dimensions + resolved['values']) | selectattr('type', 'equalto', 'text') | list -%}
    {%- set lengths = [] -%}
    {%- for text in resolved.dimensions if text.type == 'text' -%}
        {%- do lengths.append('coalesce(octet_length(' ~ text.sql ~ '), 0)') -%}
    {%- endfor -%}
    {%- if texts | rejectattr('alias', 'equalto', 'f') | list -%}
    case
        {%- for text in texts if text.alias != 'f' %}
        when octet_length({{ text.sql }}) > 1000
            then {{ waltally.quote_literal('the value of ' ~ text.column ~ ' is longer than 1000 bytes') }}
        {%- endfor %}
        {%- if lengths | length > 1 %}
        when {{ lengths | join(' + ') }} > 1800
            then {{ waltally.quote_literal(
                'the values of ' ~ resolved.dimensions | selectattr('type', 'equalto', 'text')
                | map(attribute='column') | join(', ') ~ ' together are longer than 1800 bytes'
            ) }}
        {%- endif %}
    end
    {%- endif -%}
{%- endmacro %}

{# SQL: the keys of the parent rows that a row of the fact names: {"lookup": {"column": key}}. #}
{% macro name_parents(resolved) -%}
jsonb_build_object(
            {%- for lookup in resolved.lookups %}
            {{ waltally.quote_literal(lookup.name) }}, jsonb_build_object({{ waltally.list_key(lookup) }}){{ ',' if not loop.last }}
            {%- endfor %}
        )
{%- endmacro %}

{# A CTE after `finer`: list its rows that are left out, one line for each reason and set of parents. Nothing where none can
   be. #}
{% macro list_left_out(resolved) -%}
    {%- if waltally.explain_long(resolved) %},

    listed as (
        insert into {{ waltally.name_table(ref('waltally', 'rejected_changes')) }} (
            fact, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
        )
        select distinct
            {{ waltally.quote_literal(waltally.get_model_key()) }},
            $1,
            '0/0'::pg_lsn,
            -abs(hashtextextended(reason || parents, 0) >> 1) - 1,
            0,
            now(),
            null,
            'roll-up',
            reason,
            parents::text
        from finer
        where reason is not null and parents is not null
        on conflict do nothing
    )
    {%- endif %}
{%- endmacro %}


{# Statement: take the lines of parents that changed out of the list; collect_delta lists again what is left out.
   `changes` are CTEs, of which the last is `touched`. #}
{% macro forget_left_out(resolved, relation, changes) %}
    {%- if waltally.explain_long(resolved) -%}
    {%- set listed = waltally.name_table(ref('waltally', 'rejected_changes')) -%}
    {%- set own = waltally.quote_literal(waltally.get_model_key()) -%}
if exists (select from {{ listed }} as old where old.fact = {{ own }}) then
    {%- for lookup in resolved.lookups if lookup.relation == relation %}
        {{ changes }}

        delete from {{ listed }} as old
        using touched
        where
            old.fact = {{ own }}
            and old.payload::jsonb @> jsonb_build_object(
                {{ waltally.quote_literal(lookup.name) }}, jsonb_build_object({{ waltally.list_key(lookup, 'touched') }})
            );
    {%- endfor %}
    end if;
    {%- endif -%}
{%- endmacro %}

{# SQL: the key of a lookup's row as arguments of jsonb_build_object; that of `row`, or the one that a row of the fact
   names. #}
{% macro list_key(lookup, row=none) %}
    {%- for key, by in lookup.by.items() -%}
        {{ waltally.quote_literal(key) }}, {{ row ~ '.' ~ waltally.quote_name(key) if row else by.sql }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{# SQL: the rows of the fact under which a changed row of a lookup may be. `touched` is a FROM item with the
   keys of the changed rows. #}
{% macro select_touched(resolved, relation, touched) %}
    {%- for lookup in resolved.lookups if lookup.relation == relation %}
    {#- The lookups between this one and the fact, from here on. -#}
    {%- set way = [lookup] -%}
    {%- for step in resolved.lookups | reverse if step != lookup -%}
        {%- for near in way | list if step.alias in near.by.values() | map(attribute='alias') and step not in way -%}
            {%- do way.append(step) -%}
        {%- endfor -%}
    {%- endfor %}
    {{ 'union' if not loop.first }}
    select f.*
    from {{ touched }} as {{ lookup.alias }}
    {%- for step in way[1:] %}
    cross join {{ step.relation }} as {{ step.alias }}
    {%- endfor %}
    cross join {{ resolved.fact }} as f
    where
        {%- for step in way %}
        {%- set is_first = loop.first %}
        {%- for key, by in step.by.items() %}
        {{ 'and ' if not (is_first and loop.first) }}{{ step.alias }}.{{ waltally.quote_name(key) }} = {{ by.sql }}
        {%- if by.type == 'text' and by.alias != 'f' %}
        -- The condition of the index: a longer text is no parent's key.
        and octet_length({{ by.sql }}) <= 1000
        {%- endif %}
        {%- endfor %}
        {%- endfor %}
    {%- endfor %}
{%- endmacro %}

{# SQL: a FROM item with the rows of an input that `moved` tells of, as they were before or are after. #}
{% macro select_moved(columns, side) -%}
(
        select
            {%- for column in columns %}
            moved.{{ side }}[{{ loop.index }}]::{{ column.type }} as {{ waltally.quote_name(column.name) }}{{ ',' if not loop.last }}
            {%- endfor %}
        from unnest($2) as moved
        where moved.{{ side }} is not null
    )
{%- endmacro %}
