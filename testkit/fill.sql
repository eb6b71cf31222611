-- Deterministic for one set of parameters: every random() of a statement follows its setseed.
-- Skewed as real traffic is: a few templates and a few statuses have most of the rows.

insert into services (id, name)
select
    md5(%(seed)s || ' service ' || n)::uuid,
    'service ' || n
from generate_series(1, %(services)s) as n;

insert into templates (id, service_id, template_type, name)
select
    md5(%(seed)s || ' template ' || n)::uuid,
    md5(%(seed)s || ' service ' || 1 + n %% %(services)s)::uuid,
    (array['email', 'sms', 'letter'])[1 + n %% 3]::notification_type,
    'template ' || n
from generate_series(1, %(templates)s) as n;

select setseed(%(seed)s %% 1000 / 1000.0);

create temporary table made on commit drop as
select
    rolled.part,
    md5(%(seed)s || ' ' || rolled.part || ' ' || rolled.n)::uuid as id,
    case when rolled.odd >= %(null_share)s then template.service_id end as service_id,
    case when rolled.odd >= %(null_share)s * 2 then template.id end as template_id,
    (array['test', 'team', 'team'])[1 + floor(rolled.odd * 20)::integer] as key_type,
    template.template_type,
    case when rolled.odd < 1 - %(null_share)s then rolled.status end as status,
    timestamp '2026-11-01' - rolled.age as created_at,
    'reference ' || rolled.n as reference
from (
    select
        part,
        n,
        1 + floor(power(random(), 2) * %(templates)s)::integer as place,
        statuses[1 + floor(random() * 10)::integer] as status,
        random() as odd,
        random() * span as age
    from (
        values
        (
            'live', %(live_rows)s, interval '7 days',
            array['created', 'sending', 'sending', 'pending', 'sent', 'delivered', 'delivered',
                  'delivered', 'temporary-failure', 'permanent-failure']
        ),
        (
            'history', %(history_rows)s, interval '2 years',
            array['delivered', 'delivered', 'delivered', 'delivered', 'delivered', 'delivered',
                  'sending', 'temporary-failure', 'permanent-failure', 'technical-failure']
        )
    ) as of_table (part, row_count, span, statuses)
    cross join lateral generate_series(1, row_count) as n
) as rolled
inner join (
    select row_number() over (order by id) as place, * from templates
) as template using (place);

insert into notifications (
    id, "to", service_id, template_id, key_type, notification_type, notification_status,
    created_at, reference
)
select
    id, 'a@example.org', service_id, template_id, coalesce(key_type, 'normal'), template_type,
    status, created_at, reference
from made where part = 'live';

insert into notification_history (
    id, service_id, template_id, key_type, notification_type, notification_status, created_at,
    reference
)
select
    id, service_id, template_id, coalesce(nullif(key_type, 'test'), 'normal'), template_type,
    status, created_at, reference
from made where part = 'history';
