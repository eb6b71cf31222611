select nation.n_name as nation, green.o_year, sum(green.profit) as sum_profit
from {{ ref('green_profit') }} as green
inner join {{ ref('nation') }} as nation on nation.n_nationkey = green.s_nationkey
group by nation.n_name, green.o_year
order by nation.n_name, green.o_year desc
