{{ config(materialized='waltally') }}

select "Größe ""m"" cm" as size, sum(n) as n from {{ source('shop', 'odd') }} group by 1
