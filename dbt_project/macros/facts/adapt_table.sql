{# SQL: give the table the columns that the model declares. Where the dimensions, the measures or the key are
   others, nothing can be added to its rows: with `may_replace` they go, and `result.is_replaced` says so; else
   the table stays as it is. The table itself stays, with its grants and with the views on columns
   that stay. #}
{% macro adapt_table(declared, derived, may_replace) %}
{%- set types = {} %}
{%- for column in (model.columns.values() if config.get('contract').enforced else []) %}
    {%- do types.update({column.name: column.data_type}) %}
{%- endfor %}
{%- set table = waltally.quote_literal(this.include(database=false) | string) ~ '::regclass' %}
declare
    -- A name that is free: whoever calls cdc.apply may have made temporary tables before.
    wanted_name constant text := 'wanted_' || gen_random_uuid();
    wanted regclass;
begin
execute 'create temporary table ' || quote_ident(wanted_name) || {{ waltally.quote_literal(
    ' on commit drop as (' ~ waltally.select_nothing(declared, derived, types) ~ ') with no data'
) }};
wanted := ('pg_temp.' || quote_ident(wanted_name))::regclass;
result.is_replaced := exists (
    select
    from pg_attribute as new
    where
        new.attrelid = wanted and new.attnum > 0
        and new.attname <> all (array[{{ waltally.quote_literals(derived.keys() | list) }}]::name[])
        and not exists ({{ waltally.find_same_column('new', table) }})
) or not exists (
    select
    from pg_constraint as c
    where
        c.conrelid = {{ table }}
        and c.conname = {{ waltally.quote_literal(waltally.name_key(declared)) }}
        and array(
            select a.attname::text
            from unnest(c.conkey) with ordinality as k (attnum, place)
            inner join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = k.attnum
            order by k.place
        ) = array[{{ waltally.quote_literals(waltally.list_key(declared)) }}]
);
select string_agg(change, ', ' order by change desc) into changed
from (
    select format('drop column %I', old.attname) as change
    from pg_attribute as old
    where
        old.attrelid = {{ table }} and old.attnum > 0 and not old.attisdropped
        and not exists ({{ waltally.find_same_column('old', 'wanted') }})
        {%- if may_replace %}
        and (
            result.is_replaced
            or exists (
                select from pg_attribute as new
                where new.attrelid = wanted and new.attnum > 0 and new.attname = old.attname
            )
        )
        {%- else %}
        -- A column that the former routine does not fill is somebody else's.
        and exists (
            select from pg_proc as p
            where
                p.pronamespace = {{ waltally.quote_literal(waltally.quote_name(this.schema)) }}::regnamespace
                and p.proname = {{ waltally.quote_literal(model.name ~ '__apply') }}
                and strpos(p.prosrc, '"' || replace(old.attname, '"', '""') || '"') > 0
        )
        {%- endif %}
    union all
    select format('add column %I %s', new.attname, format_type(new.atttypid, new.atttypmod))
    from pg_attribute as new
    where
        new.attrelid = wanted and new.attnum > 0
        and not exists ({{ waltally.find_same_column('new', table) }})
) as columns;
execute 'drop table pg_temp.' || quote_ident(wanted_name);
{%- if not may_replace %}
if result.is_replaced then
    return;
end if;
{%- endif %}
begin
    {%- if may_replace %}
    if result.is_replaced then
        lock table {{ this }} in access exclusive mode;
        delete from {{ this }};
    end if;
    {%- endif %}
    if changed is not null then
        execute {{ waltally.quote_literal('alter table ' ~ this.include(database=false) ~ ' ') }} || changed;
    end if;
exception
    when dependent_objects_still_exist then
        raise exception '{{ model.name }} declares other columns, and a view or a key still needs an old one: %', sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end;
{%- if may_replace %}
if result.is_replaced then
    {{ waltally.keep_constraints(declared) }}
end if;
{%- endif %}
end;
{% endmacro %}
