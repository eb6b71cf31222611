{# The last TRUNCATE of each part in the bounded batch: the body of stg_truncates. The condition is
   that of the index change_log_truncates, word for word, or the whole batch would be read. #}
{% macro read_truncates() %}
with truncates as (
    select
        part,
        commit_lsn,
        ordinal
    from ({{ read_changes("action is null or action = 'T'") }}) as changes
    where action = 'T'
)

select distinct on (part)
    part,
    commit_lsn,
    ordinal
from truncates
where part is not null
order by part asc, commit_lsn desc, ordinal desc
{% endmacro %}
