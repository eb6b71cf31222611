{# The last TRUNCATE of each of the fact's tables in the bounded batch: part, commit_lsn, ordinal.
   The condition is that of the index change_log_truncates, word for word, or the whole batch would
   be read. #}
{% macro read_truncates(tables) %}
with truncates as (
    select
        part,
        commit_lsn,
        ordinal
    from ({{ waltally.read_changes(tables, "action is null or action = 'T'") }}) as changes
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
