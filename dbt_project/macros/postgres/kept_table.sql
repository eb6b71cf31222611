{# The materialization of a table that the models fill: made once, with its contract and its
   descriptions, then left alone. The lock lets one of two first builds at once make it. #}
{% materialization kept_table, adapter='postgres' %}
    {%- set relation = this.incorporate(type='table') -%}

    {%- set is_new = load_cached_relation(this) is none -%}
    {%- set grants = config.get('grants') -%}

    {%- if is_new or grants -%}
        {% call statement('pins') %}{{ waltally.pin_transaction() }}{% endcall %}
    {%- endif -%}
    {%- if is_new -%}
        {% call statement('main') %}
do $make_table$
begin
    perform pg_advisory_xact_lock({{ waltally.lock_key('dbt relation', waltally.get_model_key()) }});
    if to_regclass({{ waltally.quote_literal(this.include(database=false) | string) }}) is null then
        {{ get_create_table_as_sql(false, relation, sql) }}
        -- It has no key, and a publication for all tables refuses deletes from a table without an identity.
        alter table {{ this.include(database=false) }} replica identity full;
    end if;
end
$make_table$
        {% endcall %}
    {%- else -%}
        {% call noop_statement('main', 'KEPT') %}{{ sql }}{% endcall %}
    {%- endif -%}

    {%- if is_new or grants -%}
        {% do apply_grants(relation, grants, should_revoke=not is_new) %}
        {% if is_new %}{% do waltally.keep_descriptions(relation) %}{% endif %}
        {{ adapter.commit() }}
    {%- endif -%}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}
