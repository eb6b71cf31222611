{# The columns of the model's table: name, type as PostgreSQL prints it, place in a constraint. #}
{% macro look_at_columns(constraint) %}
    {%- set found = run_query(
        'select a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), '
        ~ 'pg_catalog.array_position(c.conkey, a.attnum)::text '
        ~ 'from pg_catalog.pg_attribute as a left join pg_catalog.pg_constraint as c '
        ~ 'on c.conrelid = a.attrelid and c.conname = ' ~ waltally.quote_literal(constraint)
        ~ ' where a.attrelid = pg_catalog.to_regclass('
        ~ waltally.quote_literal(this.include(database=false) | string)
        ~ ') and a.attnum > 0 and not a.attisdropped order by a.attnum'
    ).rows -%}
    {%- do waltally.note_found(found) -%}
    {{ return(found) }}
{% endmacro %}
