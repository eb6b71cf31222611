{{ config(
    materialized='waltally',
    timezone=var('shop_zone', 'Europe/Berlin'),
    tags=['dashboard'],
    changes='1 hour',
    indexes=[{'columns': ['channel']}],
    grants={'select': ['pg_monitor']},
    pre_hook="insert into public.hook_call values ('before', to_regclass('{{ this }}') is not null)",
    post_hook="insert into public.hook_call select 'after', count(*) >= 0 from {{ this }}",
) }}

with placed as (
    select * from {{ ref('int_orders_placed') }}
),

sales as (
    select
        placed_at::date as day,
        channel,
        count(*) as order_count,
        sum(amount) as amount,
        count(*) filter (where status = 'paid') as paid_count,
        round(avg(amount), 2) as average_amount
    from placed
    group by 1, 2
)

select * from sales
