{# SQL: give the table the columns of a query, where the model has come to declare others. Where
   its rows cannot be added to, they go, in the transaction that puts the new ones in: readers see
   the old rows until then. The table itself stays, with its grants and with the views on columns
   that stay. #}
{% macro adapt_columns(declared, sql, reads_table) %}
{%- set table = waltally.quote_literal(this.include(database=false) | string) ~ '::regclass' %}
{%- set wanted = waltally.quote_name(model.name ~ '__wanted') %}
{%- set wanted_table = waltally.quote_literal(wanted) ~ '::regclass' %}
do $adapt_columns$
declare
    changes text;
begin
    {%- if reads_table %}
    if not {{ waltally.is_redefined() }} then
        return;
    end if;
    {%- else %}
    lock table {{ this }} in access exclusive mode;
    delete from {{ this }};
    -- The rows of other slots are gone too: their next builds start from their baselines.
    update {{ source('cdc', 'model_watermark') }}
    set declaration = null
    where
        model_name = {{ waltally.quote_literal(waltally.get_model_key()) }}
        and slot_name <> '{{ waltally.get_slot_name() }}';
    {%- endif %}

    create temporary table {{ wanted }} on commit drop as (
{{ sql }}
    ) with no data;
    select string_agg(change, ', ' order by change desc) into changes
    from (
        select format('drop column %I', old.attname) as change
        from pg_attribute as old
        where
            old.attrelid = {{ table }} and old.attnum > 0 and not old.attisdropped
            and not exists ({{ waltally.find_same_column('old', wanted_table) }})
        union all
        select format('add column %I %s', new.attname, format_type(new.atttypid, new.atttypmod))
        from pg_attribute as new
        where
            new.attrelid = {{ wanted_table }} and new.attnum > 0
            and not exists ({{ waltally.find_same_column('new', table) }})
    ) as columns;
    if changes is not null then
        execute 'alter table {{ this }} ' || changes;
    end if;
exception
    when dependent_objects_still_exist then
        raise exception '{{ model.name }} declares other columns, and a view or a key still needs an old one: %', sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$adapt_columns$;
{%- if not reads_table %}
{{ waltally.keep_constraints(declared) }}
{%- endif %}
{% endmacro %}
