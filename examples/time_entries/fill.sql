-- Deterministic for one set of parameters.

insert into projects (id, name, budget)
select
    n,
    (array['Website', 'Payroll', 'Intranet', 'Archive', 'Training'])[1 + n %% 5] || ' ' || n,
    case when n %% 7 > 0 then n * 1000 end
from generate_series(1, 500) as n;

select setseed(%(seed)s %% 1000 / 1000.0);

insert into time_entries (project_id, person, started_at, hours)
select
    case when place < 0.97 then 1 + floor(power(place, 1.3) * 500)::integer end,
    'person ' || 1 + n %% 50,
    timestamp '2026-11-01' - age * interval '60 days',
    case when length < 0.02 then null else round((length * 8)::numeric - 0.3, 1 + n %% 3) end
from (
    select
        n,
        random() as place,
        random() as age,
        random() as length
    from generate_series(1, %(rows)s) as n
) as rolled;
