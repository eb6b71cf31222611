{# Print what each fact could not count and what counts it, where dbt tests. It prints also under
   --quiet, because a test that fails shows only a number. #}
{% macro report_rejections(listed) %}
{%- if execute and flags.WHICH in ['build', 'test'] -%}
    {%- set found -%}
select
    listed.fact,
    coalesce(max(registered.fact_name), '') as fact_name,
    count(*) as change_count,
    string_agg(distinct listed.reason, '; ' order by listed.reason) as reasons
from {{ listed }} as listed
left join {{ source('cdc', 'fact') }} as registered
    on
        registered.slot_name = listed.slot_name
        and registered.relation_schema || '.' || registered.relation_name = listed.fact
group by listed.fact
order by listed.fact
    {%- endset -%}
    {%- for row in waltally.run_pinned(found) -%}
        {%- do print(
            waltally.escape_text(row.fact) ~ ' could not count ' ~ row.change_count ~ ' change' ~ ('s' if row.change_count > 1 else '') ~ ': ' ~ waltally.escape_text(row.reasons)
            ~ '\nTry: correct the cause (`loader status` says how); then `spark-submit spark/seed.py --fact '
            ~ waltally.escape_text(row.fact_name or row.fact.split('.')[-1]) ~ '`, then `dbt build`'
        ) -%}
    {%- endfor -%}
{%- endif -%}
{% endmacro %}
