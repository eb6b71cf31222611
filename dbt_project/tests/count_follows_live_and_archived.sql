{{ config(enabled=project_name == 'waltally') }}

-- A count is what its expression gives for live_count and archived_count.
with facts as (
    select * from {{ ref('ft_service_stats') }}
)

select *
from facts
where
    count is distinct from greatest(
        live_count {%- if var('count_archived') %} + archived_count {%- endif %}, 0
    )
