{# Everything that a batch adds to a fact, from the CTE `deltas`: the deltas; in a rebuild the
   baseline, less what the table holds; and for a part with a TRUNCATE less what the table holds of
   it. is_stored says that the row comes from the table. #}
{% macro collect_contributions(keys, additive, is_seeded) %}
    -- A TRUNCATE takes away what came before it. compute_deltas has taken it out of the deltas; here
    -- it goes out of the baseline and of the table.
    with truncates as (
        select distinct part
        from deltas
        where action = 'T' and rejected_reason is null
    )

    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when deltas.part = '{{ spec.part }}'
                then deltas.sign * deltas.change_count{{ ' * deltas.' ~ spec.sum if spec.sum }}
            else 0
        end as {{ column }},
        {%- endfor %}
        false as is_stored
    from deltas
    where deltas.sign is not null
    {%- if is_seeded %}

    union all

    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when baseline.part = '{{ spec.part }}' then baseline.row_count
            else 0
        end as {{ column }},
        {%- endfor %}
        false as is_stored
    from (
        select
            {{ keys }},
            row_count,
            {{ get_part('source_table') }} as part
        from {{ source('cdc', 'historical_counts') }}
        where {{ is_rebuild() }} and slot_name = '{{ get_slot_name() }}'
    ) as baseline
    where part not in (select part from truncates)
    {%- endif %}
    {%- if is_incremental() %}

    union all

    select
        {{ keys }},
        {%- for column, spec in additive.items() %}
        case
            when
                {{ is_rebuild() }}
                or exists (select from truncates where part = '{{ spec.part }}')
                then -{{ column }}
            else 0
        end as {{ column }},
        {%- endfor %}
        true as is_stored
    from {{ this }}
    where {{ is_rebuild() }} or {{ is_redefined() }} or exists (select from truncates)
    {%- endif %}
{% endmacro %}
