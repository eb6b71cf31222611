{# The materialization of a view that readers have grants and views of their own on. dbt's `view`
   makes a new view in each build and drops the old one, with those grants and views. This one
   leaves a view that is as it should be alone, and replaces any other in place, which may add
   columns at the end and change nothing else about them. #}
{% materialization kept_view, adapter='postgres' %}
    {%- set relation = this.incorporate(type='view') -%}
    {%- set name = relation.include(database=false) -%}
    {%- set candidate = this.identifier ~ '__candidate' -%}
    {%- set existing = load_cached_relation(this) -%}

    {% call statement('pins') %}{{ waltally.pin_transaction() }}{% endcall %}

    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}

    {% call statement('main') %}
do $make_view$
begin
    perform pg_advisory_xact_lock({{ waltally.lock_key('dbt relation', waltally.get_model_key()) }});

    create temporary view "{{ candidate }}" as (
        {{ sql }}
    );
    if to_regclass({{ waltally.quote_literal(name | string) }}) is null then
        create view {{ name }} as (
            {{ sql }}
        );
    elsif pg_get_viewdef('"{{ candidate }}"'::regclass)
        <> pg_get_viewdef(to_regclass({{ waltally.quote_literal(name | string) }}))
    then
        -- New readers wait behind this statement, so it waits 5 s at most for those before it.
        perform set_config('lock_timeout', '5s', true);
        create or replace view {{ name }} as (
            {{ sql }}
        );
    end if;
    drop view "{{ candidate }}";
end
$make_view$
    {% endcall %}

    {% do apply_grants(
        relation,
        config.get('grants'),
        should_revoke=should_revoke(existing, full_refresh_mode=false)
    ) %}
    {% do waltally.keep_descriptions(relation) %}
    {{ adapter.commit() }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}
