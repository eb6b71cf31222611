{# dbt's own view is swapped by every build: for a moment locked, and without the grants and the
   views on it that readers had made. This one stays: a build that finds it as it should be does not
   touch it, and a change replaces it in place, which may add columns at the end and no more. #}
{% materialization view, adapter='postgres' %}
    {%- set relation = this.incorporate(type='view') -%}
    {%- set name = relation.include(database=false) -%}
    {%- set candidate = this.identifier ~ '__candidate' -%}
    {%- set existing = load_cached_relation(this) -%}

    {{ run_hooks(pre_hooks, inside_transaction=false) }}
    {% call statement('pins') %}{{ pin_transaction() }}{% endcall %}
    {{ run_hooks(pre_hooks, inside_transaction=true) }}

    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}

    {% call statement('main') %}
do $make_view$
begin
    perform pg_advisory_xact_lock(hashtextextended('waltally {{ model_key() }}', 0));

    create temporary view "{{ candidate }}" as (
        {{ sql }}
    );
    if to_regclass('{{ name }}') is null then
        create view {{ name }} as (
            {{ sql }}
        );
    elsif pg_get_viewdef('"{{ candidate }}"'::regclass)
        <> pg_get_viewdef(to_regclass('{{ name }}'))
    then
        -- Readers who come later wait behind this, so it does not wait long itself.
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
    {% do persist_docs(relation, model) %}

    {{ run_hooks(post_hooks, inside_transaction=true) }}
    {{ adapter.commit() }}
    {{ run_hooks(post_hooks, inside_transaction=false) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}
