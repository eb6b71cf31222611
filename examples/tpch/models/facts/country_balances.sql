{{ config(materialized='waltally') }}

select
    substring(c_phone from 1 for 2) as cntrycode,
    count(*) as customer_count,
    sum(c_acctbal) as acctbal
from {{ source('tpch', 'customer') }}
where c_acctbal > 0
group by 1
