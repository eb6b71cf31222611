{# As a post-hook: the role of ops/roles.sql that reads models may read this model too, or this view, as soon as it is
   there. The lock is for threads of dbt that grant at once: the second one would fail. #}
{% macro grant_to_reader() %}
    {%- set reader = waltally.quote_literal(waltally.quote_name(var('reader', 'waltally_reader'))) -%}
do $grant$
begin
{%- for granted in waltally.own_relations(this) -%}
    {%- set relation = waltally.quote_name(granted.schema) ~ '.' ~ waltally.quote_name(granted.identifier) %}
    if not has_table_privilege(to_regrole({{ reader }}), {{ waltally.quote_literal(relation) }}, 'select') then
        perform pg_advisory_xact_lock({{ waltally.lock_key('dbt schema', granted.schema) }});
        execute format('grant usage on schema %s to %s', {{ waltally.quote_literal(waltally.quote_name(this.schema)) }}, {{ reader }});
        execute format('grant select on %s to %s', {{ waltally.quote_literal(relation) }}, {{ reader }});
    end if;
{%- endfor %}
end
$grant$
{% endmacro %}
