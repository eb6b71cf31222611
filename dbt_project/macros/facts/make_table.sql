{# A step of the materialization: make the model's table where it is not there. Where it is, change its
   derived columns, if nothing else is declared otherwise: another declaration waits for its baseline, and
   the routine changes the table when it comes. A roll-up's table is changed when it is filled. #}
{% macro make_table(declared, derived, relation, sql) %}
    {% call statement('columns') %}
do $make_table$
#variable_conflict use_column
declare
    result {{ waltally.get_staging_schema() }}.outcome;
    changed text;
begin
    {%- if load_cached_relation(this) is none %}
    -- Another build may have made it while this one waited.
    if to_regclass({{ waltally.quote_literal(this.include(database=false) | string) }}) is null then
        {{ get_create_table_as_sql(false, relation, sql) }}
        {{ waltally.keep_constraints(declared) }}
    end if;
    {%- elif declared.kind == 'roll_up' %}
    null;
    {%- else %}
    {{ waltally.adapt_table(declared, derived, may_replace=false) }}
    {%- if derived %}
    update {{ this }} as stored
    set ({{ waltally.quote_names(derived.keys()) }}) = ({{ waltally.compute_derived(declared, derived) }})
    where exists (
        select
        from ({{ waltally.compute_derived(declared, derived) }}) as computed ({{ waltally.quote_names(derived.keys()) }})
        where
            ({{ waltally.prefix_names('stored', derived.keys() | list) }})
            is distinct from ({{ waltally.prefix_names('computed', derived.keys() | list) }})
    );
    {%- endif %}
    {%- endif %}
end
$make_table$
    {% endcall %}
{% endmacro %}
