{# Everything that a batch adds to a fact, from the CTE `deltas`: the deltas; in a rebuild the
   baseline, less what the table holds; and for a part with a TRUNCATE less what the table holds of
   it. is_stored says that the row comes from the table. The dimensions are d0, d1, ..., the
   measures m0, m1, ... #}
{% macro collect_contributions(declared, reads_table) %}
    {%- set keys = waltally.number_names('d', declared.dimensions | length) -%}
    {%- set summed = waltally.list_values(declared) | selectattr('kind', 'equalto', 'sum')
        | map(attribute='column') | list -%}
    {%- set slots = declared.dimensions | selectattr('kind', 'equalto', 'slot') | list %}
    -- A TRUNCATE takes away what came before it. compute_deltas has taken it out of the deltas; here
    -- it goes out of the baseline and of the table.
    with truncates as (
        select distinct part
        from deltas
        where action = 'T' and rejected_reason is null
    )

    select
        {{ keys }},
        {%- for measure in declared.measures %}
        case
            when deltas.part in ({{ waltally.quote_literals(measure.of) }})
                then deltas.sign * deltas.change_count
                {{- ' * deltas.s' ~ summed.index(measure.column) if measure.kind == 'sum' }}
            else 0
        end as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from deltas
    where deltas.sign is not null

    union all

    select
        {%- for dimension in declared.dimensions %}
        groups.dimensions[{{ loop.index }}]::{{ dimension.type }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        groups.measures[{{ loop.index }}]{{ '::bigint' if measure.kind == 'count' }} as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from {{ source('cdc', 'baseline_group') }} as groups
    where
        {{ waltally.is_rebuild() }}
        and groups.slot_name = '{{ waltally.get_slot_name() }}'
        and groups.fact_name = {{ waltally.quote_literal(model.name) }}
        and groups.part not in (select truncates.part from truncates)
    {%- if reads_table %}

    union all

    {{ waltally.mark_reading() }}
    select
        {%- for dimension in declared.dimensions %}
        stored.{{ waltally.quote_name(dimension.name) }} as d{{ loop.index0 }},
        {%- endfor %}
        {%- for measure in declared.measures %}
        case
            when
                {{ waltally.is_rebuild() }}
                {%- if measure.of | length == 1 %}
                or exists (select from truncates where part in ({{ waltally.quote_literals(measure.of) }}))
                {%- endif %}
                then -stored.{{ waltally.quote_name(measure.name) }}
            else 0
        end as m{{ loop.index0 }},
        {%- endfor %}
        true as is_stored
    from {{ this }} as stored
    where
        ({{ waltally.is_rebuild() }} or {{ waltally.is_redefined() }} or exists (select from truncates))
        {%- for slot in slots %}
        and stored.{{ waltally.quote_name(slot.name) }} = '{{ waltally.get_slot_name() }}'
        {%- endfor %}
    {%- endif %}
{% endmacro %}
