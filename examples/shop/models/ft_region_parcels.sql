{{ config(materialized='waltally') }}

select
    parcels.month,
    customers."Region" as region,
    parcels.customer_no,
    parcels.days,
    sum(parcels.parcel_count)::bigint as parcel_count
from {{ ref('ft_parcels') }} as parcels
left join {{ ref('customers') }} as customers
    on parcels.customer_no = customers."Customer no"
group by 1, 2, 3, 4
