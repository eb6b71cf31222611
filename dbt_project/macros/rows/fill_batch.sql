{# SQL: put the rows of a query into a temporary table that lives as long as the session. A table made
   for each build would fill the catalogs with dead rows, and its WAL is more than that of most
   batches. #}
{% macro fill_batch(batch, sql) %}
do $fill_batch$
begin
    if to_regclass({{ waltally.quote_literal('pg_temp.' ~ batch) }}) is null then
        create temporary table {{ batch }} on commit delete rows as (
{{ sql }}
        ) with no data;
    end if;
    insert into {{ batch }}
{{ sql }};
end
$fill_batch$
{% endmacro %}
