{{ config(materialized='waltally', surrogate_key='id') }}

select stock.kind, busy.last_day, count(*) as place_count, sum(stock.pieces) as pieces
from (select kind, pieces, case place when 'p1' then 'web' else place end as place from {{ ref('stock') }}) as stock
left join {{ ref('busy_channels') }} as busy on busy.channel = stock.place
group by 1, 2
