{{ config(materialized='waltally', timezone='Europe/Berlin', surrogate_key='id') }}

select
    "placedAt"::date as day,
    "Channel" as channel,
    count(*) as order_count,
    count(*) filter (where "Status" in ('paid', 'sent')) as paid_count,
    count(*) filter (where "Total, gross" < 0) as refund_count,
    coalesce(sum("Total, gross"), 0) as amount,
    coalesce(sum("Quantity" * "Unit price"), 0) as revenue,
    round(coalesce(sum("Total, gross"), 0) / count(*), 2) as average_amount
from {{ source('shop', 'Orders') }}
where "Status" <> 'draft'
group by 1, 2
