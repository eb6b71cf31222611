{# SQL: apply the changes of a batch to the rows, one after the other as they were made: whatever
   several of them do to one row or to its key, the result is that of the source. A rebuild starts
   from the rows of the baseline. #}
{% macro apply_rows(declared, batch) %}
{%- set names = declared.dimensions | map(attribute='name') | list -%}
{%- set columns = waltally.quote_names(names) -%}
{%- set fetched = waltally.number_names('change.new_', names | length) -%}
do $apply_rows$
declare
    change record;
begin
    if exists (select from {{ batch }} where action = 'T' and rejected_reason is null) then
        delete from {{ this }}{{ waltally.write_slot_filter(declared) }};
    elsif {{ waltally.is_rebuild() }} then
        delete from {{ this }}{{ waltally.write_slot_filter(declared) }};
        insert into {{ this }} ({{ columns }})
        select
            {%- for column in declared.dimensions %}
            groups.dimensions[{{ loop.index }}]::{{ column.type }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ source('cdc', 'baseline_group') }} as groups
        where
            groups.slot_name = '{{ waltally.get_slot_name() }}'
            and groups.fact_name = {{ waltally.quote_literal(model.name) }};
    end if;

    for change in
        select * from {{ batch }}
        where rejected_reason is null and (has_old or has_new)
        order by commit_lsn, ordinal
    loop
        if not change.has_new then
            delete from {{ this }} as stored where {{ waltally.match_key(declared, 'old') }};
            continue;
        end if;
        if change.has_old then
            update {{ this }} as stored
            set
                {%- for name in names %}
                {{ waltally.quote_name(name) }} = case
                    when change.has_{{ loop.index0 }} then change.new_{{ loop.index0 }}
                    else stored.{{ waltally.quote_name(name) }}
                end{{ ',' if not loop.last }}
                {%- endfor %}
            where {{ waltally.match_key(declared, 'old') }};
            continue when found;
        end if;
        if {% for name in names %}change.has_{{ loop.index0 }}{{ ' and ' if not loop.last }}{% endfor %} then
            insert into {{ this }} ({{ columns }})
            values ({{ fetched }})
            on conflict ({{ waltally.quote_names(declared.key) }}) do update
            set ({{ columns }}) = row({{ waltally.prefix_names('excluded', names) }});
        else
            -- Nothing holds the values that the change does not carry.
            update {{ batch }} as missing
            set rejected_reason = 'the row was not known, and an unchanged value is not in the change'
            where (missing.commit_lsn, missing.ordinal) = (change.commit_lsn, change.ordinal);
        end if;
    end loop;

    perform where {{ waltally.record_uncounted(batch) }};
exception
    when unique_violation then
        raise exception 'two rows of {{ model.name }} have the same key: %', sqlerrm
            using hint = 'Declare a key that no two rows share at any moment, run loader setup and spark-submit spark/seed.py --fact {{ model.name }}.';
end
$apply_rows$
{% endmacro %}
