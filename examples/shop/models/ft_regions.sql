{{ config(materialized='waltally', surrogate_key='id') }}

select
    month,
    region,
    sum(parcel_count)::bigint as parcel_count,
    count(distinct customer_no) as customer_count,
    round(
        sum(days * parcel_count) / nullif(sum(parcel_count) filter (where days is not null), 0), 2
    ) as average_days,
    max(days) as longest_days,
    round(sum(parcel_count) / nullif(count(distinct customer_no), 0), 2) as parcels_per_customer
from {{ ref('ft_region_parcels') }}
group by 1, 2
