select
    nation.n_name as nation,
    green.o_year,
    sum(green.profit) as sum_profit
from {{ ref('green_profit') }} as green
inner join {{ ref('nation') }} as nation on green.s_nationkey = nation.n_nationkey
group by nation.n_name, green.o_year
order by nation.n_name asc, green.o_year desc
