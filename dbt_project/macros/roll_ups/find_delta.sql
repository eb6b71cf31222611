{# A step: find what the groups of the finer fact that changed add, less what they had added. #}
{% macro find_fact_delta(resolved) %}
    {%- set finer -%}
    {{ waltally.select_finer(resolved, waltally.select_moved(resolved.fact_columns, 'after')) }}
        union all
    {{- waltally.select_finer(resolved, waltally.select_moved(resolved.fact_columns, 'before'), '-') }}
    {%- endset -%}
    {{ waltally.collect_delta(resolved, '', finer) }}
{%- endmacro %}

{# A step: find what moves because rows of a lookup changed: everything that is counted under them. #}
{% macro find_lookup_delta(resolved, relation) %}
    {%- set size = waltally.get_staging_schema() ~ '.slice_size()' -%}
    {%- set lookups = resolved.lookups | selectattr('relation', 'equalto', relation) | list -%}
    {%- set keys = lookups[0].by.keys() | list -%}
    {%- set columns = waltally.quote_names((keys + lookups | sum(attribute='taken', start=[])) | unique) -%}
    {#- Each is read once: nested loops go through them again and again. -#}
    {%- set changes -%}
    with old_rows as materialized (
        select * from {{ waltally.select_moved(lookups[0].columns, 'before') }} as moved
    ),

    new_rows as materialized (
        select * from {{ waltally.select_moved(lookups[0].columns, 'after') }} as moved
    ),

    touched as materialized (
        select distinct {{ waltally.quote_names(keys) }}
        from (
            (
                select {{ columns }} from old_rows
                except select {{ columns }} from new_rows
            )
            union all
            (
                select {{ columns }} from new_rows
                except select {{ columns }} from old_rows
            )
        ) as changed
    )
    {%- endset -%}
    {%- set source -%}
    {{ changes }},

    source as materialized (
        select * from (
            {{- waltally.select_touched(resolved, relation, 'touched') }}
        ) as f
        limit {{ size }} / 20 + 1
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
    {%- set finer -%}
    {{ waltally.select_finer(resolved, 'source') }}
        union all
    {{- waltally.select_finer(resolved, 'source', '-', replaced) }}
    {%- endset -%}
    {{ waltally.forget_left_out(resolved, relation, changes) }}
    {{ waltally.collect_delta(
        resolved, source, finer,
        '(select count(*) from source) > ' ~ size ~ ' / 20\n        or '
            ~ 'exists (select from source) and (select count(*) from touched) > ' ~ size ~ ' / 200'
    ) }}
{%- endmacro %}

{# A statement: list what is left out of the roll-up, and put the rest of `finer` into the variable delta. `with_ctes`
   are CTEs that it needs. #}
{% macro collect_delta(resolved, with_ctes, finer, is_large='false') %}
    {{ with_ctes ~ ',\n\n    ' if with_ctes else 'with ' }}finer as materialized (
        {{- finer }}
    )
    {{- waltally.list_left_out(resolved) }}

    select
        {{ is_large }},
        array_agg(row(
            id,
            array[{% for _ in resolved.dimensions %}d{{ loop.index0 }}::text{{ ', ' if not loop.last }}{% endfor %}],
            array[{% for _ in resolved['values'] %}v{{ loop.index0 }}::text{{ ', ' if not loop.last }}{% endfor %}]::text[],
            array[
                {%- for _ in resolved.measures if _.kind == 'sum' %}s{{ loop.index0 }}{{ ', ' if not loop.last }}{% endfor -%}
            ]::numeric[],
            group_count,
            weight
        )::{{ waltally.get_staging_schema() }}.group_delta)
    into is_large, delta
    from finer
    {%- if waltally.explain_long(resolved) %}
    where reason is null
    {%- endif %};
{%- endmacro %}

{# CTE: the delta of a roll-up's function as select_finer had it. #}
{% macro read_delta(resolved) -%}
    with delta as materialized (
        select
            id,
            {%- for dimension in resolved.dimensions %}
            dimensions[{{ loop.index }}]::{{ dimension.type }} as d{{ loop.index0 }},
            {%- endfor %}
            {%- for value in resolved['values'] %}
            "values"[{{ loop.index }}]::{{ value.type }} as v{{ loop.index0 }},
            {%- endfor %}
            {%- for _ in resolved.measures if _.kind == 'sum' %}
            sums[{{ loop.index }}] as s{{ loop.index0 }},
            {%- endfor %}
            group_count,
            weight
        from unnest($1)
    )
{%- endmacro %}

{# CTEs: as a delta everything that the finer fact holds, and, with `is_listing`, the list of what is left out. #}
{% macro read_all(resolved, is_listing) -%}
    with finer as materialized (
        {{- waltally.select_finer(resolved, resolved.fact) }}
    )
    {{- waltally.list_left_out(resolved) if is_listing }},

    delta as not materialized (
        select * from finer
        {%- if waltally.explain_long(resolved) %}
        where reason is null
        {%- endif %}
    )
{%- endmacro %}
