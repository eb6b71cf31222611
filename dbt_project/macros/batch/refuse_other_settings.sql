{# A step of bound_batch: refuse a build whose tables, slot or relation are not those of the builds
   before it. #}
{% macro refuse_other_settings() -%}
{%- set is_seeded = model.config.meta.get('seeded', true) -%}
-- Changes of other tables would be taken for counted ones, or live rows for archived ones.
    if compiled_tables <> state.counted_tables then
        raise exception 'dbt counts %, and loader setup registered %',
            {{ list_tables('compiled_tables') }}, {{ list_tables('state.counted_tables') }}
            using hint = 'Run dbt again after: export LOADER_TABLES='
                || {{ quote_for_shell(list_tables('state.registered_tables')) }};
    end if;

    -- A model belongs to one slot: each of two slots would be added to what the other one made.
    select mark.slot_name into other_slot
    from {{ source('cdc', 'model_watermark') }} as mark
    where mark.model_name = model and mark.slot_name <> '{{ get_slot_name() }}'
    order by mark.slot_name
    limit 1;
    if found then
        raise exception '% is built from the slot %; a second slot would mix its counts with these',
            model, other_slot
            using hint = 'Set LOADER_SLOT=' || other_slot
                || '. To move the model to {{ get_slot_name() }} for good
                {%- if is_seeded %}, run spark-submit spark/seed.py for it first. Then{% else %},{% endif %} run in psql: '
                || {{ write_watermark_delete('other_slot') }}
                || ' and then: dbt build --full-refresh';
    end if;

    {%- if load_cached_relation(this) is none %}

    -- dbt has planned to create the table, and would fail on it with an error of its own.
    if to_regclass({{ quote_literal(this.include(database=false) | string) }}) is not null then
        raise exception 'another build made % while this one waited', model
            using hint = 'Run dbt build again; nothing was applied twice.';
    end if;
    {%- endif %}

    if state.seed_id is null and state.built_on is not null and not {{ flags.FULL_REFRESH }} then
        raise exception 'the baseline that % was built on is gone', model
            using hint = 'Run spark-submit spark/seed.py; to do without a baseline, dbt build --full-refresh.';
    end if;
{%- endmacro %}
