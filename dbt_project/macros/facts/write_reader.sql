{# SQL: the function that reads a batch of the log once for all facts of the project. #}
{% macro write_reader(reader, readables) %}
{%- set change_type = waltally.get_staging_schema() ~ '.change' -%}
create or replace function {{ reader }}(
    slot text,
    from_lsn pg_lsn,
    to_lsn pg_lsn,
    first_lsn pg_lsn,
    first_ordinal bigint,
    end_lsn pg_lsn,
    end_ordinal bigint,
    is_each boolean
) returns {{ change_type }}[]
language plpgsql security definer
{{ waltally.pin_routine('reader') }}
as $reader$
#variable_conflict use_column
declare
    changes {{ change_type }}[];
begin
    select array_agg(row(batch.*)::{{ change_type }}) into changes
    from (
        {{ waltally.read_batch(
            readables,
            '$1',
            batch='log.commit_lsn >= $2 and log.commit_lsn < $3',
            part='commit_lsn >= $4 and commit_lsn <= $6'
                ~ '\n    and (commit_lsn, ordinal) >= ($4, $5) and (commit_lsn, ordinal) < ($6, $7)',
            is_each='$8',
        ) }}
    ) as batch;
    return changes;
end
$reader$
{% endmacro %}
