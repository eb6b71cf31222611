{{ config(materialized='waltally', full_refresh=false, changes='2 days') }}

select "Größe ""m"" cm" as place, kind, sum(pieces) as pieces from {{ source('shop', 'stock') }} group by 1, 2
