{# A step of the routine of current rows: apply the changes one after the other as they were made. Whatever
   several of them do to one row or to its key, the result is that of the source. #}
{% macro apply_rows(declared, listed) %}
{%- set names = declared.dimensions | map(attribute='name') | list -%}
{%- set columns = waltally.quote_names(names) -%}
{%- set part = waltally.quote_literal(declared.tables[0].name) %}
for change in
    select * from (
{{ waltally.read_row_changes(declared, 'unnest($3)', '($4)', '($5)', '$2') }}
    ) as row_change
    order by commit_lsn, ordinal
loop
    left_out := left_out + change.left_out;
    rejected_reason := change.rejected_reason;
    if rejected_reason is null then
        if change.action = 'T' then
            delete from {{ this }} where true{{ waltally.write_slot_filter(declared, '$2') }};
            is_truncated := true;
            left_out := 0;
        elsif not change.has_new then
            if change.has_old then
                delete from {{ this }} as stored where {{ waltally.match_key(declared, 'old') }};
            end if;
        else
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
                values ({{ waltally.number_names('change.new_', names | length) }})
                on conflict ({{ waltally.quote_names(declared.key) }}) do update
                set ({{ columns }}) = row({{ waltally.prefix_names('excluded', names) }});
                continue;
            end if;
            -- Nothing holds the values that the change does not carry.
            rejected_reason := 'the row was not known, and an unchanged value is not in the change';
        end if;
    end if;
    if rejected_reason is not null then
        result.rejected_lsn := change.commit_lsn;
        {{ waltally.insert_rejection(declared, listed, 'change.part', 'change.action', 'rejected_reason') }}
        from {{ waltally.get_staging_schema() }}.change_log as log
        where log.slot_name = $2 and log.commit_lsn = change.commit_lsn and log.ordinal = change.ordinal;
    end if;
end loop;
result.left_out := jsonb_build_object(
    {{ part }}, jsonb_build_object('row_count', left_out, 'is_truncated', is_truncated)
);
{% endmacro %}
