-- Deterministic for one set of parameters.

insert into "Web Shop"."Shops" ("Shop id", "Name")
select
    n,
    'Shop ' || n
from generate_series(1, 5) as n;

insert into "Web Shop"."Customers" ("Customer no", "Name", "Region")
select
    n,
    'Customer ' || n,
    (array['north', 'south', 'south', 'east', 'west', 'west', 'west'])[1 + n %% 8]
from generate_series(1, 500) as n;

select setseed(%(seed)s %% 1000 / 1000.0);

insert into "Web Shop"."Orders" (
    "Shop id", "Order no", "Channel", "Status", "placedAt", "Quantity", "Unit price",
    "Total, gross"
)
select
    1 + n %% 5,
    n,
    case when channel < 9 then (array['web', 'web', 'web', 'app', 'app', 'phone'])[1 + channel %% 6] end,
    (array['draft', 'placed', 'paid', 'sent', 'sent', 'sent', 'returned'])[1 + status],
    timestamptz '2026-11-01 00:00+00' - age * interval '30 days',
    1 + n %% 3,
    case when price >= 0.02 then round((price * 90)::numeric, 2) end,
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

insert into "Web Shop"."Parcels" ("Customer no", "sentAt", "Days")
select
    case when n %% 20 > 0 then 1 + floor(power(place, 2) * 500)::integer end,
    timestamptz '2026-11-01 00:00+00' - age * interval '30 days',
    case when age > 0.1 then 1 + floor(power(length, 3) * 30)::integer end
from (
    select
        n,
        random() as place,
        random() as age,
        random() as length
    from generate_series(1, %(rows)s / 10) as n
) as rolled;
