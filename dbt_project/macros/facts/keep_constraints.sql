{# SQL: what every fact's table has. A batch finds its groups by the unique dimensions, where null is
   a group too. Its rows are updated in every build, and an update that finds room on the page does
   not have to write the indexes. #}
{% macro keep_constraints(declared) %}
do $keep_constraints$
begin
    alter table {{ this }}
        {%- for column in declared.dimensions + declared.measures if column.nulls != 'count' %}
        alter column {{ waltally.quote_name(column.name) }} set not null,
        {%- endfor %}
        set (fillfactor = 80);
    if not exists (
        select from pg_constraint
        where
            conrelid = {{ waltally.quote_literal(this.include(database=false) | string) }}::regclass
            and contype = 'p'
    ) then
        alter table {{ this }}
        add constraint {{ waltally.quote_name(this.identifier ~ '_pkey') }} primary key (id);
    end if;
    alter table {{ this }}
    drop constraint if exists {{ waltally.quote_name('uix_' ~ this.identifier ~ '_dimensions') }},
    add constraint {{ waltally.quote_name('uix_' ~ this.identifier ~ '_dimensions') }}
    unique nulls not distinct ({{ waltally.quote_names(declared.dimensions | map(attribute='name')) }});
end
$keep_constraints$
{% endmacro %}
