{# The materialization of facts and current rows. Lock, bounds, merge and watermark share one
   transaction, each a statement of its own: what follows the lock sees what it waited for. A full
   refresh is a batch like any other, so the table is never swapped and readers never find it
   missing. #}
{% materialization waltally_fact, adapter='postgres' %}
    {%- set relation = this.incorporate(type='table') -%}
    {%- set is_new = load_cached_relation(this) is none -%}
    {%- set declared = config.get('meta').waltally -%}
    {%- set derived = config.get('meta').derived -%}
    {%- set reads_table = waltally.has_declared_columns(declared) if declared.kind == 'current_rows'
        else waltally.mark_reading() in sql -%}

    {{ run_hooks(pre_hooks, inside_transaction=false) }}

    {% call statement('pins') %}
        {#- A look at columns has begun a transaction, and no isolation level could be set in it. It
            may hold the profile's `set role` too, which a rollback would undo. -#}
        commit;
        begin;
        {{ waltally.pin_transaction() }}
    {% endcall %}
    {% call statement('lock') %}{{ waltally.lock_model() }}{% endcall %}
    {% call statement('bound', fetch_result=true) %}
        {{ waltally.bound_batch(declared, reads_table) }};
        select {{ waltally.get_batch_setting('waits') }}
    {% endcall %}
    {%- set bound = load_result('bound').table.rows -%}
    {%- do waltally.note_found(bound) -%}
    {%- set waits = bound[0][0] -%}

    {%- if waits -%}
        {% call noop_statement(
            'main',
            'WAITS: ' ~ waits ~ '; run spark-submit spark/seed.py --fact ' ~ model.name
        ) %}{{ sql }}{% endcall %}
        {{ adapter.commit() }}
        {{ return({'relations': [] if is_new else [relation]}) }}
    {%- endif -%}

    {{ run_hooks(pre_hooks, inside_transaction=true) }}

    {#- The name is the same in each run: see note_found. -#}
    {%- set batch = waltally.quote_name(model.name ~ '__batch') -%}
    {%- if declared.kind == 'current_rows' -%}
        {%- do waltally.build_rows(declared, batch, relation, reads_table, sql) -%}
    {%- else -%}
        {%- do waltally.build_fact(declared, derived, relation, reads_table, sql) -%}
    {%- endif -%}

    {% do waltally.keep_grants(relation, config.get('grants')) %}
    {% do waltally.keep_descriptions(relation) %}
    {{ run_hooks(post_hooks, inside_transaction=true) }}
    {% call statement('rejections') %}{{ waltally.list_rejections(declared, batch) }}{% endcall %}
    {% call statement('watermark') %}{{ waltally.move_watermark(declared) }}{% endcall %}
    {{ adapter.commit() }}

    {{ run_hooks(post_hooks, inside_transaction=false) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}
