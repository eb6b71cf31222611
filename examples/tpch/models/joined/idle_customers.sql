{{ config(materialized='waltally') }}

select
    c.c_acctbal,
    substring(c.c_phone from 1 for 2) as cntrycode,
    count(*) as customer_count
from {{ ref('customer') }} as c
left join {{ ref('customer_orders') }} as o on c.c_custkey = o.o_custkey
where
    o.o_custkey is null
    and substring(c.c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
group by 1, 2
