{# A step of bound_batch: refuse a build whose slot or relation is not that of the builds before it.
   #}
{% macro refuse_other_settings(declared) -%}
{%- if not declared.dimensions | selectattr('kind', 'equalto', 'slot') | list -%}
-- Each of two slots would be added to what the other one made.
    select other.slot_name into other_slot
    from (
        select mark.slot_name
        from {{ source('cdc', 'model_watermark') }} as mark
        where mark.model_name = model
        union
        select fact.slot_name
        from {{ source('cdc', 'fact') }} as fact
        where fact.fact_name = {{ waltally.quote_literal(model.name) }}
    ) as other
    where other.slot_name <> '{{ waltally.get_slot_name() }}'
    order by other.slot_name
    limit 1;
    if found then
        raise exception '% is built from the slot %; a second slot would mix its counts with these',
            model, other_slot
            using hint = 'Set LOADER_SLOT=' || other_slot
                || ', or give the fact a dimension {''from'': ''slot''}.'
                || ' To move the model to {{ waltally.get_slot_name() }} for good, run in psql: '
                || {{ waltally.write_slot_removal('other_slot') }}
                || ' and then: spark-submit spark/seed.py --fact {{ model.name }}; dbt build';
    end if;
    {%- endif %}
    {%- if load_cached_relation(this) is none %}

    -- dbt has planned to create the table, and would fail on it with an error of its own.
    if to_regclass({{ waltally.quote_literal(this.include(database=false) | string) }}) is not null then
        raise exception 'another build made % while this one waited', model
            using hint = 'Run dbt build again; nothing was applied twice.';
    end if;
    {%- endif %}

    if state.baseline_id is null and state.built_on is not null and not {{ flags.FULL_REFRESH }} then
        raise exception 'the baseline that % was built on is gone', model
            using hint = 'Run spark-submit spark/seed.py --fact {{ model.name }}; to do without a baseline, dbt build --full-refresh.';
    end if;
{%- endmacro %}
