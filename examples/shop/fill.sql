-- Deterministic for one set of parameters.

insert into "Web Shop"."Shops" ("Shop id", "Name")
select
    n,
    'Shop ' || n
from generate_series(1, 5) as n;

select setseed(%(seed)s %% 1000 / 1000.0);

insert into "Web Shop"."Orders" (
    "Shop id", "Order no", "Channel", "Status", "placedAt", "Total, gross"
)
select
    1 + n %% 5,
    n,
    case when channel < 9 then (array['web', 'web', 'web', 'app', 'app', 'phone'])[1 + channel %% 6] end,
    (array['draft', 'placed', 'placed', 'sent', 'sent', 'sent', 'returned'])[1 + status],
    timestamptz '2026-11-01 00:00+00' - age * interval '30 days',
    case
        when price < 0.02 then null
        when price < 0.1 then - round((price * 2000)::numeric, 2)
        else round((price * 400)::numeric, 1 + n %% 4)
    end
from (
    select
        n,
        floor(random() * 10)::integer as channel,
        floor(random() * 7)::integer as status,
        random() as age,
        random() as price
    from generate_series(1, %(rows)s) as n
) as rolled;

select setval('"Web Shop"."Order numbers"', %(rows)s + 1);
