select
    idle.cntrycode,
    sum(idle.customer_count)::bigint as numcust,
    sum(idle.c_acctbal * idle.customer_count) as totacctbal
from {{ ref('idle_customers') }} as idle
where
    idle.c_acctbal > (
        select sum(owed.acctbal) / sum(owed.customer_count)
        from {{ ref('country_balances') }} as owed
        where owed.cntrycode in ('13', '31', '23', '29', '30', '18', '17')
    )
group by idle.cntrycode
order by idle.cntrycode
