{# A step of the materialization: make the model's table where it is not there. Where it is, change its
   derived columns and drop what is no longer declared, if nothing else is declared otherwise: another declaration
   waits for its baseline, and the routine changes the table when it comes. A roll-up's changes it when it is filled. #}
{% macro make_table(declared, derived, relation, sql) %}
    {%- set is_roll_up = declared.kind == 'roll_up' -%}
    {%- set columns = waltally.quote_names(derived) -%}
    {%- set computed -%}
        select {{ derived.values() | join(', ') }}
        from (
            select {{ waltally.quote_names(declared.measures | map(attribute='name') | list, 'stored') }}
        ) as measures
    {%- endset -%}
    {% call statement('columns') %}
do $make_table$
#variable_conflict use_column
begin
    {%- if load_cached_relation(this) is none %}
    -- Another build may have made it while this one waited.
    if to_regclass({{ waltally.quote_literal(this.include(database=false)) }}) is null then
        {{ get_create_table_as_sql(false, relation, sql) }}
        perform {{ waltally.get_staging_schema() }}.keep_constraints(
            {{ waltally.quote_literal(this.include(database=false)) }}, {{ waltally.describe_key(declared) }}
        );
    end if;
    {%- else %}
    perform {{ waltally.adapt_table(declared, derived, waltally.get_model_key()) }};
    {%- if derived and not is_roll_up %}
    update {{ waltally.name_table() }} as stored
    set ({{ columns }}) = ({{ computed }})
    where exists (
        select from ({{ computed }}) as computed ({{ columns }})
        where
            ({{ waltally.quote_names(derived, 'stored') }})
            is distinct from ({{ waltally.quote_names(derived, 'computed') }})
    );
    {%- endif %}
    {%- endif %}
end
$make_table$
    {% endcall %}
{% endmacro %}
