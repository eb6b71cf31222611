{# The materialization of a model that is a query: dbt installs, the database applies. One transaction makes the table and
   the routines that fill it, and registers what is to be followed for it. Then cdc.apply, which everybody calls, brings it to the position of the change log. The
   table is never swapped, so readers never find it missing. #}
{% materialization waltally, adapter='postgres' %}
    {%- set relation = this.incorporate(type='table') -%}
    {%- set staging = waltally.get_staging_schema() -%}
    {%- set is_new = load_cached_relation(this) is none -%}
    {%- set relations = waltally.list_relations() -%}
    {%- set is_dependent = relations | selectattr('model', 'defined') | list | length > 0 -%}
    {%- set slot = relations | map(attribute='slot', default=waltally.get_slot_name()) | first -%}

    {%- if target.get('autocommit') -%}
        {{ exceptions.raise_compiler_error(
            'Table and routine are made in one transaction: remove autocommit from the profile.'
        ) }}
    {%- elif flags.EMPTY or invocation_args_dict.get('sample') -%}
        {{ exceptions.raise_compiler_error(
            'An --empty build would pass over changes without applying them, and a --sample would be kept as the '
            ~ 'query: run without it.'
        ) }}
    {%- endif -%}

    {%- set known = 'pg_catalog.to_regclass(' ~ waltally.quote_literal(staging ~ '.slot_position') ~ ')' -%}
    {%- if run_query('select ' ~ known ~ ' is null').columns[0][0] -%}
        {{ exceptions.raise_compiler_error(
            'Nothing is set up for waltally in schema ' ~ staging ~ ' of this database. Try: `loader setup`, then `dbt build`.'
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
        select pg_advisory_xact_lock({{ staging }}.lock_key(
            'model', {{ waltally.quote_literal(waltally.get_model_key()) }}
        ))
    {% endcall %}

    {{ run_hooks(pre_hooks, inside_transaction=true) }}
    {% call statement('install', fetch_result=true) %}
        {#- A query that reads a model is kept from models, and has neither slot nor rejected changes of its own. -#}
        select {{ staging }}.say_model({{ staging }}.{{ 'install_dependent' if is_dependent else 'install_query' }}(
            {{ waltally.quote_literal(project_name if is_dependent else slot) }},
            {{ waltally.quote_literal(this.schema) }},
            {{ waltally.quote_literal(this.identifier) }},
            {{ waltally.quote_literal(waltally.get_model_name()) }},
            {{ waltally.quote_literal(sql) }},
            {{ waltally.quote_literal(tojson(relations)) }},
            {{ waltally.quote_literal(tojson(waltally.list_options())) }},
            {{ 'null' if is_dependent else waltally.quote_literal(waltally.name_rejected_changes()) }},
            {{ should_full_refresh() }}
            {%- if not is_dependent %},
            {{ waltally.quote_literal(project_name) }},
            {{ waltally.quote_literal(target.schema) }}
            {%- endif %}
        ))
    {% endcall %}
    {%- do run_query(waltally.note_project()) -%}
    {%- do log(waltally.get_model_key() ~ ': ' ~ load_result('install').table.rows[0][0], info=true) -%}
    {%- if is_new -%}
        {% do create_indexes(relation) %}
    {%- endif -%}
    {%- set grants = config.get('grants') -%}
    {%- for granted in waltally.own_relations(relation) if grants -%}
        {%- set present = adapter.standardize_grants_dict(run_query(get_show_grant_sql(granted))) -%}
        {%- if diff_of_two_dicts(grants, present) or diff_of_two_dicts(present, grants) -%}
            {%- do apply_grants(granted, grants, should_revoke=true) -%}
        {%- endif -%}
    {%- endfor -%}
    {% do waltally.keep_descriptions(relation) %}
    {{ run_hooks(post_hooks, inside_transaction=true) }}
    {{ adapter.commit() }}

    {%- do waltally.apply_model(
        run_query('select ' ~ staging ~ '.feeding_slot(' ~ waltally.quote_literal(waltally.get_model_key()) ~ ')').columns[0][0]
        if is_dependent else slot,
        is_dependent
    ) -%}
    {{ run_hooks(post_hooks, inside_transaction=false) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{# What the query reads, by itself or by an ephemeral model, each with its name as the compiled query has it: tables of the
   source, with the slot that follows them, and models. #}
{% macro list_relations() %}
    {%- set relations = [] -%}
    {#- What an ephemeral model reads joins the list while the loop runs. -#}
    {%- set ids = model.depends_on.nodes | list -%}
    {%- for id in ids -%}
        {%- set named = graph.sources.get(id) -%}
        {#- dbt doubles no quotation mark in a name: the YAML does. -#}
        {%- set relation = {
            'relation': named.relation_name, 'table': (named.schema ~ '.' ~ named.identifier) | replace('""', '"'),
            'slot': named.config.get('meta', {}).get('slot') or waltally.get_slot_name()
        } if named -%}
        {%- if named and relation not in relations -%}
            {%- do relations.append(relation) -%}
        {%- elif id in graph.nodes and graph.nodes[id].config.materialized == 'ephemeral' -%}
            {%- do ids.extend(graph.nodes[id].depends_on.nodes) -%}
        {%- elif id in graph.nodes -%}
            {%- set node = graph.nodes[id] -%}
            {#- With --defer the query may read the model of another target. -#}
            {%- set read = node if node.relation_name in sql else node.get('defer_relation') or node -%}
            {%- set relation = {
                'relation': read.relation_name, 'model': read.schema ~ '.' ~ read.alias, 'schema': read.schema, 'name': read.alias,
                'materialized': node.config.materialized
            } -%}
            {%- do relations.append(relation) if relation not in relations -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}

{# rejected_changes, as SQL writes it. A materialization's ref() would be no dependency, so it may not be made yet. #}
{% macro name_rejected_changes() -%}
    {%- set node = graph.nodes['model.waltally.rejected_changes'] -%}
    {{ waltally.quote_name(node.schema) }}.{{ waltally.quote_name(node.alias) }}
{%- endmacro %}

{# What the model's config says of its query; loader/setup/query.py reads the same for `loader setup --check`. #}
{% macro list_options() %}
    {%- set options = {} -%}
    {%- for name in ['timezone', 'unique_key', 'ignore_deletes', 'surrogate_key', 'engine', 'changes'] if config.get(name) -%}
        {%- do options.update({name: [config.get(name)] if name == 'unique_key' and config.get(name) is string else config.get(name)}) -%}
    {%- endfor -%}
    {%- if config.get('contract').enforced -%}
        {%- set types = {} -%}
        {%- for column in model.columns.values() -%}
            {%- do types.update({column.name: column.data_type}) -%}
        {%- endfor -%}
        {%- do options.update({'contract': types}) -%}
    {%- endif -%}
    {{ return(options) }}
{% endmacro %}

{# SQL that says which models the project has, so that `loader status` can name the others. #}
{% macro note_project() -%}
    {%- set models = graph.nodes.values() | selectattr('config.materialized', 'equalto', 'waltally') | list -%}
    select {{ waltally.get_staging_schema() }}.note_project(
        {{ waltally.quote_literal(project_name) }},
        array[{%- for schema in models | map(attribute='schema') | unique %}
            {{- waltally.quote_literal(schema) }}{{ ', ' if not loop.last }}
        {%- endfor %}],
        array[{%- for model in models %}{{ waltally.quote_literal(model.schema ~ '.' ~ model.alias) }}{{ ', ' if not loop.last }}{% endfor %}]
    )
{%- endmacro %}

{# A model's table, and the one in which a model with `changes` keeps them. #}
{% macro own_relations(relation) %}
    {%- set relations = [relation] -%}
    {%- if config.get('changes') -%}
        {%- do relations.append(api.Relation.create(
            database=relation.database, schema=relation.schema, identifier=relation.identifier ~ '_changes', type='table'
        )) -%}
    {%- endif -%}
    {{ return(relations) }}
{% endmacro %}
