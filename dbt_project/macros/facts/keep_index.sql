{# Make an index on these columns of the fact where it has none. dbt's own `indexes` makes an index
   only together with the table, so an existing fact would never get a new one, and names it by a
   hash.

   Not `create index if not exists`: it locks the table before it looks, and so stops autovacuum. #}
{% macro keep_index(columns) %}
do $keep_index$
begin
    if not exists (
        select
        from pg_index as x
        where
            x.indrelid = {{ waltally.quote_literal(this.include(database=false) | string) }}::regclass
            and not x.indisunique
            and x.indpred is null
            and array['{{ columns | join("', '") }}'] = array(
                select a.attname::text
                from pg_attribute as a
                where a.attrelid = x.indexrelid
                order by a.attnum
            )
    ) then
        create index on {{ this }} ({{ columns | join(', ') }});
    end if;
end
$keep_index$
{% endmacro %}
