{# The materialization of facts, current rows and roll-ups: dbt installs, the database applies. One transaction makes the
   table and the routine that fills it. Then cdc.apply, which everybody calls, brings it to the position of the
   change log. The table is never swapped, so readers never find it missing. #}
{% materialization waltally_fact, adapter='postgres' %}
    {%- set relation = this.incorporate(type='table') -%}
    {%- set is_roll_up = 'waltally_roll_up' in config.get('meta') -%}
    {%- set declared = waltally.read_resolved(sql) if is_roll_up else config.get('meta').waltally -%}
    {%- set derived = config.get('meta').derived -%}

    {%- if target.get('autocommit') -%}
        {{ exceptions.raise_compiler_error(
            'Table and routine are made in one transaction: remove autocommit from the profile.'
        ) }}
    {%- elif flags.EMPTY -%}
        {{ exceptions.raise_compiler_error(
            'An --empty build would pass over changes without applying them: run without it.'
        ) }}
    {%- endif -%}

    {{ run_hooks(pre_hooks, inside_transaction=false) }}

    {% call statement('lock') %}
        {#- A query of dbt's may have begun a transaction, and no isolation level could be set in it. It
            may hold the profile's `set role` too, which a rollback would undo. -#}
        commit;
        begin;
        {{ waltally.pin_transaction() }};
        {#- Any apply of this model ends before, and none begins. -#}
        select pg_advisory_xact_lock({{ waltally.get_staging_schema() }}.lock_key(
            'model', {{ waltally.quote_literal(waltally.get_model_key()) }}
        ))
    {% endcall %}

    {{ run_hooks(pre_hooks, inside_transaction=true) }}
    {%- do waltally.make_table(declared, derived, relation, sql) -%}
    {% call statement('functions') %}
        {{- waltally.write_roll_up(declared, derived) if is_roll_up else waltally.install_functions(declared, derived) -}}
    {% endcall %}
    {%- set grants = config.get('grants') -%}
    {%- set present = adapter.standardize_grants_dict(run_query(get_show_grant_sql(relation))) if grants else {} -%}
    {%- if grants and (diff_of_two_dicts(grants, present) or diff_of_two_dicts(present, grants)) -%}
        {%- do apply_grants(relation, grants, should_revoke=true) -%}
    {%- endif -%}
    {% do waltally.keep_descriptions(relation) %}
    {#- Where the model waits for its baseline the table has the former columns, and a hook could not name the new. -#}
    {%- if not waltally.list_columns(declared, derived)
        | reject('in', adapter.get_columns_in_relation(this) | map(attribute='name') | list) | list -%}
        {{ run_hooks(post_hooks, inside_transaction=true) }}
    {%- endif -%}
    {{ adapter.commit() }}

    {%- do waltally.apply_model(waltally.get_slot_name()) -%}
    {{ run_hooks(post_hooks, inside_transaction=false) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}
