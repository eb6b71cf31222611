{{ config(materialized='waltally', timezone='Europe/Berlin', surrogate_key='id', engine='spark') }}

select
    date_trunc('month', "sentAt")::date as month,
    "Customer no" as customer_no,
    "Days" as days,
    count(*) as parcel_count
from {{ source('shop', 'Parcels') }}
group by 1, 2, 3
