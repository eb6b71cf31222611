{# SQL: give the table the columns of a rebuild, whose declaration has others. Its rows go, in the
   transaction that puts the new ones in: readers see the old rows until then. The table itself
   stays, with its grants, and with the views on columns that stay. #}
{% macro replace_columns(declared, batch) %}
{%- set table = waltally.quote_literal(this.include(database=false) | string) ~ '::regclass' %}
do $replace_columns$
declare
    changes text;
begin
    lock table {{ this }} in access exclusive mode;
    delete from {{ this }};
    select string_agg(change, ', ' order by change desc) into changes
    from (
        select format('drop column %I', old.attname) as change
        from pg_attribute as old
        where
            old.attrelid = {{ table }} and old.attnum > 0 and not old.attisdropped
            and not exists ({{ waltally.find_same_column('old', waltally.quote_literal(batch) ~ '::regclass') }})
        union all
        select format('add column %I %s', new.attname, format_type(new.atttypid, new.atttypmod))
        from pg_attribute as new
        where
            new.attrelid = {{ waltally.quote_literal(batch) }}::regclass and new.attnum > 0
            and not exists ({{ waltally.find_same_column('new', table) }})
    ) as columns;
    execute 'alter table {{ this }} drop constraint if exists '
        || {{ waltally.quote_literal(waltally.quote_name('uix_' ~ this.identifier ~ '_dimensions')) }}
        || coalesce(', ' || changes, '');
end
$replace_columns$;
{{ waltally.keep_constraints(declared) }}
{% endmacro %}
