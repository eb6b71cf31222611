{# SQL: let the owner of cdc.apply, and nobody else, execute functions: [(signature, schema), ...]. #}
{% macro grant_to_caller(functions) %}
do $install$
declare
    caller constant name := (
        select pg_get_userbyid(p.proowner) from pg_proc as p
        where p.oid = {{ waltally.quote_literal(waltally.get_staging_schema() ~ '.apply(text, text)') }}::regprocedure
    );
begin
    {%- for signature, schema in functions %}
    revoke execute on function {{ signature }} from public;
    execute format('grant execute on function {{ signature | replace("'", "''") }} to %I', caller);
    if not has_schema_privilege(caller, {{ waltally.quote_literal(schema) }}, 'usage') then
        execute format('grant usage on schema {{ waltally.quote_name(schema) | replace("'", "''") }} to %I', caller);
    end if;
    {%- endfor %}
end
$install$;
{% endmacro %}
